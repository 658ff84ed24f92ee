"""Run a Python solution against its tests, and decide the verdict outside the solution's reach.

    runner = CodeRunner(max_concurrency=4)
    verdict = await runner.run_programs(source, [ProgramCase("3\n", "9\n")], timeout_s=5)
    verdict.passed, verdict.reason, verdict.isolation

Four kinds of tests, by the place where the verdict is decided:

    run_programs     the program reads an input; its output is compared in the gym's process
    call_function    the function gets arguments; its return value is compared in the gym's process, as plain data
    check            `check(candidate)` runs in its own sandbox; the solution answers each call of `candidate` in
                     another one. The solution sees neither expected values nor the verdict
    check_together   solution and tests share an interpreter, for tests that patch modules or read files. A solution
                     that exits early, prints a verdict or returns an object that equals everything fails
                     (`_code_guard`), but one that manipulates the harness on purpose could forge the verdict. It is
                     therefore `tamperable`

The first failing test ends the run. A failure of the solution is a verdict. A failure of the machine, or of the tests
themselves, is a `GymError`. Time limits are CPU seconds, so that no verdict depends on how busy the machine is
(`nemo_gym.isolation.time_limits`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from nemo_gym.failures import VerifierError
from nemo_gym.isolation.execution import ConfinedRunner, Execution, IsolationKind, SandboxLimits
from nemo_gym.isolation.python_installation import PythonInstallation
from nemo_gym.isolation.time_limits import Ending, TimeLimit
from nemo_gym.isolation.workspace_files import put_files
from nemo_gym.processes.workers import available_cores, default_pool
from nemo_gym.verify import _code_guard as code_guard
from nemo_gym.verify._code_comparison import check_program, check_return_value
from nemo_gym.verify._code_harness import dump
from nemo_gym.verify._code_protocol import Harness, HarnessReply, open_harness
from nemo_gym.verify._code_verdicts import Reason, SolutionFailed
from nemo_gym.verify.task_rows import invalid_row

TIMEOUT_S = 10.0
_LIFETIME_FACTOR = 20
"""A sandbox lives at most this many times its CPU limit; a CPU limit expires much earlier."""
_LONGEST_READ_ON_LOOP = 32 * 1024
"""Longer answers are read in a worker, because they would hold the event loop for milliseconds."""
_COMPARISON_TIMEOUT_S = 300.0
_GUARD_SOURCE = Path(code_guard.__file__).read_text(encoding="utf-8")

Source: TypeAlias = str | Sequence[str]
"""A solution, or candidate sources of which the first that compiles is used."""


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """The input of a program and its expected output."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class CallCase:
    """The arguments of a call and the accepted return values, as JSON."""

    arguments: Sequence[Any]
    expected: Sequence[Any]


class CheckStyle(StrEnum):
    """The form of tests that share the solution's interpreter."""

    ASSERTS = "asserts"
    """Asserts, at the top level or in a function `check(candidate)`."""
    UNITTEST = "unittest"
    """Classes of `unittest.TestCase`."""


@dataclass(frozen=True, slots=True)
class Checks:
    """Tests that are code."""

    tests: str
    entry_point: str
    """The name of the solution's function."""
    context: str = ""
    """Helpers from the prompt that the tests may use beside the candidate."""


@dataclass(frozen=True, slots=True)
class CodeVerdict:
    """The verdict on a solution."""

    reason: Reason | None
    """The reason for the failure; None when every test passed."""
    detail: str
    tests_passed: int
    isolation: IsolationKind
    seconds: float
    tamperable: bool = False
    """True if the solution shared an interpreter with its tests."""

    @property
    def passed(self) -> bool:
        return self.reason is None


class CodeRunner:
    """Runs solutions, at most `max_concurrency` at a time (by default one per core).

    `python` names another interpreter than the gym's, for solutions that need packages. `limits` apply to each
    sandbox, except for `wall_s`, which is derived from the tests' time limits.
    """

    def __init__(
        self,
        *,
        python: str | None = None,
        max_concurrency: int | None = None,
        require_sandbox: bool = False,
        limits: SandboxLimits | None = None,
        tolerance: float = 1e-6,
    ) -> None:
        self._python = PythonInstallation.from_executable(python) if python else PythonInstallation.from_gym()
        self._sandbox = ConfinedRunner.from_python(self._python, require_sandbox=require_sandbox)
        self._slots = asyncio.Semaphore(max_concurrency or available_cores())
        self._limits = limits or SandboxLimits()
        self._tolerance = tolerance

    async def isolation(self) -> IsolationKind:
        """Return the isolation of solutions on this machine. Raises ConfigError as `ConfinedRunner.isolation` does."""
        return await self._sandbox.isolation()

    async def run_programs(
        self, source: Source, cases: Sequence[ProgramCase], *, timeout_s: float = TIMEOUT_S
    ) -> CodeVerdict:
        """Run the program once per case, for at most `timeout_s` CPU seconds each."""
        most = max((len(case.stdin.encode()) for case in cases), default=0)
        file_bytes = max(most, self._limits.output_bytes) + 1
        limits = replace(
            self._compute_limits(timeout_s, len(cases) + 1),
            file_bytes=file_bytes,
            folder_bytes=max(self._limits.folder_bytes, 4 * file_bytes),
        )

        async def run(harness: Harness) -> AsyncIterator[None]:
            job = {"part": "programs", "sources": _sources(source), "output_bytes": self._limits.output_bytes}
            await _load(harness, job, harness.process.cpu_limit(timeout_s))
            for case in cases:
                reply = await _ask(harness, case.stdin.encode(), timeout_s)
                _expect(reply, "program")
                await _check_off_loop(check_program, reply, case.stdout, self._tolerance)
                yield

        return await self._judge(limits, run)

    async def call_function(
        self, source: Source, name: str, cases: Sequence[CallCase], *, timeout_s: float = TIMEOUT_S
    ) -> CodeVerdict:
        """Call the solution's function `name`, or the method of its class `Solution`, once per case.

        Each call may take `timeout_s` CPU seconds.
        """

        async def run(harness: Harness) -> AsyncIterator[None]:
            job = {"part": "calls", "sources": _sources(source)}
            await _load(harness, job, harness.process.cpu_limit(timeout_s))
            for case in cases:
                arguments = dump([list(case.arguments), {}]).encode()
                reply = await _ask(harness, (name, arguments), timeout_s)
                _refuse_undefined(reply, name)
                if reply.word == "raised":
                    raise SolutionFailed(Reason.RAISED, ": ".join(reply.two_texts()))
                _expect(reply, "value")
                await _check_off_loop(check_return_value, reply, name, case.expected, self._tolerance)
                yield

        return await self._judge(self._compute_limits(timeout_s, len(cases) + 1), run)

    async def check(self, source: Source, code: Checks, *, timeout_s: float = TIMEOUT_S) -> CodeVerdict:
        """Run `code` and the solution in separate sandboxes, each for at most `timeout_s` CPU seconds in total.

        Raises InputError when the tests are broken, pass without calling the solution, or call it with values that are
        not plain data.
        """
        job = {"part": "tests", "tests": code.tests, "context": code.context, "entry_point": code.entry_point}
        limits = self._compute_limits(timeout_s)

        async def run(harness: Harness) -> AsyncIterator[None]:
            async with open_harness(self._sandbox, self._python, limits) as tests:
                limit, tests_limit = harness.process.cpu_limit(timeout_s), tests.process.cpu_limit(timeout_s)
                await tests.send(job, tests_limit)
                await _load(harness, {"part": "calls", "sources": _sources(source)}, limit)
                calls = 0
                while (message := await _hear_tests(tests, tests_limit, calls)).word == "call":
                    calls += 1
                    await harness.send((code.entry_point, message.payload), limit)
                    reply = await harness.receive(limit)
                    _refuse_undefined(reply, code.entry_point)
                    _expect(reply, "value", "raised")
                    await tests.send(tuple(reply), tests_limit)
                _refuse_unplain_call(message, code.entry_point)
                _settle(message, code.tests)
                if not calls:
                    raise invalid_row(
                        f"its tests pass without a call of {code.entry_point}",
                        remedy="Write a function check(candidate), or asserts at the top level.",
                    )
            yield

        return await self._judge(limits, run)

    async def check_together(
        self,
        source: Source,
        code: Checks,
        *,
        style: CheckStyle = CheckStyle.UNITTEST,
        timeout_s: float = TIMEOUT_S,
    ) -> CodeVerdict:
        """Run `code` and the solution in one interpreter, for at most `timeout_s` CPU seconds.

        The verdict is tamperable; the module docstring says how.
        """
        proof = secrets.token_hex(16)
        job = {"part": "together", "sources": _sources(source), "style": style.value, "tests": code.tests}
        job |= {"entry_point": code.entry_point, "guard": _GUARD_SOURCE}

        async def run(harness: Harness) -> AsyncIterator[None]:
            limit = harness.process.cpu_limit(timeout_s)
            await harness.send(job, limit)
            await harness.send({"proof": proof}, limit)
            message = await harness.receive(limit)  # the last one that the solution cannot have sent
            _refuse_broken(message)
            _expect(message, "compiled")
            message = await harness.receive(limit)
            _refuse_failed(message)
            _refuse_undefined(message, code.entry_point)
            _expect(message, "verdict")
            verdict = message.value()
            if isinstance(verdict, dict) and verdict.get("passed") is True and verdict.get("proof") != proof:
                raise SolutionFailed(Reason.BROKEN_PROTOCOL, "a verdict without proof")
            _settle(message, code.tests)
            yield

        return replace(await self._judge(self._compute_limits(timeout_s), run), tamperable=True)

    async def run_in_folder(
        self, source: str, files: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
    ) -> Execution:
        """Run a program beside `files`, by relative path, for at most `timeout_s` CPU seconds; nothing is judged.

        It waits for its turn as solutions do, so that tools which run code cannot crowd out verdicts. Raises OSError
        for paths that exclude each other, and ValueError for a text that is not Unicode.
        """
        async with self._slots, self._sandbox.workspace() as workspace:
            await asyncio.to_thread(put_files, workspace, files)
            return await self._sandbox.run(
                self._python.command(source),
                limits=self._compute_limits(timeout_s),
                workspace=workspace,
                cpu_s=timeout_s,
            )

    def _compute_limits(self, cpu_s: float, times: int = 1) -> SandboxLimits:
        return replace(self._limits, wall_s=(cpu_s + 1) * times * _LIFETIME_FACTOR)

    async def _judge(
        self, limits: SandboxLimits, run: Callable[[Harness], AsyncIterator[None]]
    ) -> CodeVerdict:
        """Return the verdict of `run` with a new harness. `run` yields after every test that passed."""
        async with self._slots, open_harness(self._sandbox, self._python, limits) as harness:
            start, tests_passed = time.monotonic(), 0
            reason, detail = None, ""
            try:
                async for _ in run(harness):
                    tests_passed += 1
            except SolutionFailed as failed:
                reason, detail = failed.reason, failed.detail
            seconds = time.monotonic() - start
            return CodeVerdict(reason, detail, tests_passed, harness.process.isolation, seconds)


def _sources(source: Source) -> list[str]:
    return [source] if isinstance(source, str) else list(source)


async def _load(harness: Harness, job: Mapping[str, Any], limit: TimeLimit) -> None:
    await harness.send(dict(job), limit)
    reply = await harness.receive(limit)
    _refuse_failed(reply)
    _expect(reply, "loaded")


async def _ask(harness: Harness, request: object, cpu_s: float) -> HarnessReply:
    limit = harness.process.cpu_limit(cpu_s)
    await harness.send(request, limit)
    return await harness.receive(limit)


async def _check_off_loop(check: Callable[..., None], reply: HarnessReply, *expected: object) -> None:
    """Call `check` on a reply, in a worker if it is long. Raises what it raises."""
    if len(reply.payload) <= _LONGEST_READ_ON_LOOP:
        check(reply.payload, *expected)
        return
    arguments = (check, reply.payload, *expected)
    failed = await default_pool().submit(_find_failure, arguments, {}, timeout_s=_COMPARISON_TIMEOUT_S)
    if failed is not None:
        raise SolutionFailed(*failed)


def _find_failure(check: Callable[..., None], *arguments: object) -> tuple[Reason, str] | None:
    """The failure that `check` raises. A worker calls this function; a failed solution is not a failed worker."""
    try:
        check(*arguments)
    except SolutionFailed as failed:
        return failed.reason, failed.detail
    return None


def _expect(reply: HarnessReply, *words: str) -> None:
    if reply.word not in words:
        raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")


def _refuse_failed(reply: HarnessReply) -> None:
    if reply.word == "failed":
        name, text = reply.two_texts()
        reason = (
            Reason.DOES_NOT_COMPILE
            if name.endswith(("SyntaxError", "IndentationError", "TabError"))
            else Reason.RAISED
        )
        raise SolutionFailed(reason, f"{name}: {text}")


def _refuse_undefined(reply: HarnessReply, name: str) -> None:
    if reply.word == "undefined":
        raise SolutionFailed(Reason.UNDEFINED_FUNCTION, f"there is no function {name}")


def _refuse_broken(reply: HarnessReply) -> None:
    if reply.word == "broken":
        raise invalid_row(f"its tests cannot be run: {': '.join(reply.two_texts())}")


def _refuse_unplain_call(reply: HarnessReply, entry_point: str) -> None:
    if reply.word == "unplain":
        raise invalid_row(
            f"its tests call {entry_point} with {reply.value()}, which is not plain data",
            remedy="Set verifier_metadata.in_process to run these tests beside the solution.",
        )


async def _hear_tests(tests: Harness, limit: TimeLimit, calls: int) -> HarnessReply:
    """The next message of the tests. Once the solution has answered, their death is its doing."""
    try:
        message = await tests.receive(limit)
    except SolutionFailed as failed:
        if failed.reason in (Reason.TIMED_OUT, Reason.BLOCKED):
            raise
        if calls and tests.process.ending is not Ending.STOPPED:
            raise SolutionFailed(Reason.TESTS_FAILED, f"the tests ended: {failed.reason}") from failed
        raise VerifierError(
            f"The tests of the task died in their sandbox: {failed.reason} {failed.detail}".rstrip(),
            code="tests_died",
        ) from failed
    _refuse_broken(message)
    return message


def _settle(message: HarnessReply, tests: str) -> None:
    """Raise SolutionFailed unless the tests passed."""
    verdict = message.value()
    if not isinstance(verdict, dict):
        raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")
    if "not_plain" in verdict:
        raise SolutionFailed(Reason.NOT_PLAIN_DATA, str(verdict["not_plain"]))
    if verdict.get("passed") is True:
        return
    why, line = str(verdict.get("why")), verdict.get("line")
    lines = tests.splitlines()
    at = lines[line - 1].strip() if isinstance(line, int) and 0 < line <= len(lines) else ""
    raise SolutionFailed(Reason.TESTS_FAILED, f"{why} in `{at}`"[:500] if at else why[:500])
