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
                     that exits early, prints a verdict or returns an object with its own `==` fails, but one that
                     manipulates the harness on purpose could forge the verdict: prefer the other kinds

The first failing test ends the run. A failure of the solution is a verdict. A failure of the machine, or of the tests
themselves, is a `GymError`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

from nemo_gym.failures import InputError, VerifierError
from nemo_gym.processes.workers import available_cores
from nemo_gym.sandbox.execution import IsolationKind, SandboxLimits
from nemo_gym.verify._code_comparison import is_same_output, is_same_return_value
from nemo_gym.verify._code_protocol import (
    Harness,
    PythonInstallation,
    Reason,
    SolutionFailed,
    open_harness,
    read_value,
)

TIMEOUT_S = 10.0
_OWN_OPAQUE = "__main__.Opaque"


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

    @property
    def passed(self) -> bool:
        return self.reason is None


@dataclass(slots=True)
class _Progress:
    """The progress of a run, readable after a failure at any point."""

    tests_passed: int = 0


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
        self._python = PythonInstallation.at(python) if python else PythonInstallation.of_the_gym()
        self._sandbox = self._python.make_sandbox(require_sandbox=require_sandbox)
        self._slots = asyncio.Semaphore(max_concurrency or available_cores())
        self._limits = limits or SandboxLimits()
        self._tolerance = tolerance

    async def isolation(self) -> IsolationKind:
        """Return the isolation of solutions on this machine. Raises ConfigError as `ConfinedRunner.isolation` does."""
        return await self._sandbox.isolation()

    async def run_programs(
        self, source: Source, cases: Sequence[ProgramCase], *, timeout_s: float = TIMEOUT_S
    ) -> CodeVerdict:
        """Run the program once per case, for at most `timeout_s` seconds each."""
        most = max((len(case.stdin.encode()) for case in cases), default=0)
        limits = replace(
            self._for(timeout_s * (len(cases) + 1)), file_bytes=max(most, self._limits.output_bytes) + 1
        )

        async def run(harness: Harness, progress: _Progress) -> None:
            job = {"part": "programs", "sources": _sources(source), "output_bytes": self._limits.output_bytes}
            await _load(harness, job, timeout_s)
            for case in cases:
                await harness.send(case.stdin.encode(), timeout_s)
                _compare_program(case, await harness.receive(timeout_s), self._tolerance)
                progress.tests_passed += 1

        return await self._judge(limits, run)

    async def call_function(
        self, source: Source, name: str, cases: Sequence[CallCase], *, timeout_s: float = TIMEOUT_S
    ) -> CodeVerdict:
        """Call the solution's function `name`, or the method of its class `Solution`, once per case."""

        async def run(harness: Harness, progress: _Progress) -> None:
            await _load(harness, {"part": "calls", "sources": _sources(source)}, timeout_s)
            for case in cases:
                await harness.send((name, list(case.arguments), {}), timeout_s)
                value = _returned(await harness.receive(timeout_s), name)
                if not any(is_same_return_value(wanted, value, self._tolerance) for wanted in case.expected):
                    raise SolutionFailed(Reason.WRONG_ANSWER, f"{name} returned {repr(value)[:200]}")
                progress.tests_passed += 1

        return await self._judge(self._for(timeout_s * (len(cases) + 1)), run)

    async def check(self, source: Source, code: Checks, *, timeout_s: float = TIMEOUT_S) -> CodeVerdict:
        """Run `code` and the solution in separate sandboxes, for at most `timeout_s` seconds in total.

        Raises InputError when the tests are broken or call the solution with values that are not plain data.
        """
        job = {"part": "tests", "tests": code.tests, "context": code.context, "entry_point": code.entry_point}

        async def run(harness: Harness, progress: _Progress) -> None:
            async with open_harness(self._sandbox, self._python, self._for(timeout_s)) as tests:
                deadline = _Deadline(timeout_s)
                await tests.send(job, deadline.left_s)
                await _load(harness, {"part": "calls", "sources": _sources(source)}, deadline.left_s)
                while not _is_verdict(message := await _ask_tests(tests, deadline)):
                    answer = await _answer_call(harness, code.entry_point, message, deadline)
                    await tests.send(answer, deadline.left_s)
                _settle(message, code.tests)
                progress.tests_passed += 1

        return await self._judge(self._for(timeout_s), run)

    async def check_together(
        self,
        source: Source,
        code: Checks,
        *,
        style: CheckStyle = CheckStyle.UNITTEST,
        timeout_s: float = TIMEOUT_S,
    ) -> CodeVerdict:
        """Run `code` and the solution in one interpreter. The module docstring states the limits of this verdict."""
        proof = secrets.token_hex(16)
        job = {"part": "together", "sources": _sources(source), "style": style.value, "tests": code.tests}

        async def run(harness: Harness, progress: _Progress) -> None:
            await harness.send(job | {"entry_point": code.entry_point}, timeout_s)
            await harness.send({"proof": proof}, timeout_s)
            message = await harness.receive(timeout_s)
            _refuse_broken(message)
            _refuse_failed(message)
            _refuse_undefined(message, code.entry_point)
            if message.get("verdict") == "passed" and message.get("proof") != proof:
                raise SolutionFailed(Reason.BROKEN_PROTOCOL, "a verdict without proof")
            _settle(message, code.tests)
            progress.tests_passed += 1

        return await self._judge(self._for(timeout_s), run)

    def _for(self, seconds: float) -> SandboxLimits:
        return replace(self._limits, wall_s=seconds)

    async def _judge(
        self, limits: SandboxLimits, run: Callable[[Harness, _Progress], Awaitable[None]]
    ) -> CodeVerdict:
        """Return the verdict of `run` with a new harness."""
        async with self._slots, open_harness(self._sandbox, self._python, limits) as harness:
            start, progress = time.monotonic(), _Progress()
            reason, detail = None, ""
            try:
                await run(harness, progress)
            except SolutionFailed as failed:
                reason, detail = failed.reason, failed.detail
            seconds = time.monotonic() - start
            return CodeVerdict(reason, detail, progress.tests_passed, harness.isolation, seconds)


class _Deadline:
    """A time limit that several steps share."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return max(self._end - time.monotonic(), 0.0)


def _sources(source: Source) -> list[str]:
    return [source] if isinstance(source, str) else list(source)


async def _load(harness: Harness, job: Mapping[str, Any], timeout_s: float) -> None:
    await harness.send(dict(job), timeout_s)
    _refuse_failed(await harness.receive(timeout_s))


def _refuse_failed(message: Mapping[str, Any]) -> None:
    if "failed" in message:
        name, text = _two_texts(message["failed"])
        reason = (
            Reason.DOES_NOT_COMPILE
            if name.endswith(("SyntaxError", "IndentationError", "TabError"))
            else Reason.RAISED
        )
        raise SolutionFailed(reason, f"{name}: {text}")


def _refuse_undefined(message: Mapping[str, Any], name: str) -> None:
    if "undefined" in message:
        raise SolutionFailed(Reason.UNDEFINED_FUNCTION, f"there is no function {name}")


def _refuse_broken(message: Mapping[str, Any]) -> None:
    if "broken" in message:
        raise InputError(
            f"The tests of the task cannot be run: {': '.join(_two_texts(message['broken']))}.",
            code="invalid_row",
            remedy="Correct them in the dataset.",
        )


def _compare_program(case: ProgramCase, reply: Mapping[str, Any], tolerance: float) -> None:
    status, stdout, stderr = reply.get("status"), reply.get("stdout"), str(reply.get("stderr"))
    if stdout is None:
        raise SolutionFailed(Reason.OUTPUT_EXCEEDED)
    if not isinstance(stdout, str) or not isinstance(status, int):
        raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")
    if status < 0:
        raise SolutionFailed(Reason.PROCESS_ENDED, f"ended by signal {-status}")
    if status > 0:
        last = stderr.strip().splitlines()[-1:] or [f"exit status {status}"]
        raise SolutionFailed(Reason.RAISED, last[0])
    if not is_same_output(case.stdout, stdout, tolerance):
        raise SolutionFailed(Reason.WRONG_ANSWER, f"it printed {stdout[:200]!r}")


def _returned(reply: Mapping[str, Any], name: str) -> Any:
    if "raised" in reply:
        raise SolutionFailed(Reason.RAISED, ": ".join(_two_texts(reply["raised"])))
    _refuse_undefined(reply, name)
    if "value" not in reply:
        raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")
    return read_value(reply["value"])


def _two_texts(pair: Any) -> tuple[str, str]:
    if isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair):
        return pair[0], pair[1]
    raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")


def _is_verdict(message: Mapping[str, Any]) -> bool:
    _refuse_broken(message)
    return "verdict" in message


async def _ask_tests(tests: Harness, deadline: _Deadline) -> dict[str, Any]:
    try:
        return await tests.receive(deadline.left_s)
    except SolutionFailed as failed:
        if failed.reason is Reason.TIMED_OUT:
            raise
        raise VerifierError(
            f"The tests of the task died in their sandbox: {failed.reason} {failed.detail}".rstrip(),
            code="tests_died",
        ) from failed


async def _answer_call(
    harness: Harness, entry_point: str, message: Mapping[str, Any], deadline: _Deadline
) -> dict[str, Any]:
    """Answer a call of the tests with the solution's plain data, its exception, or an opaque placeholder."""
    try:
        args, kwargs = read_value(message["call"])
    except SolutionFailed as failed:
        if failed.detail == _OWN_OPAQUE:  # an earlier return value of the solution, passed back to it
            raise
        raise InputError(
            f"The tests call {entry_point} with {failed.detail}, which is not plain data.",
            code="invalid_row",
            remedy="Set verifier_metadata.in_process to run these tests beside the solution.",
        ) from failed
    await harness.send((entry_point, args, kwargs), deadline.left_s)
    reply = await harness.receive(deadline.left_s)
    if "raised" in reply:
        return {"raised": _two_texts(reply["raised"])}
    try:
        return {"value": _returned(reply, entry_point)}
    except SolutionFailed as failed:
        if failed.reason is not Reason.NOT_PLAIN_DATA:
            raise
        return {"opaque": True}


def _settle(message: Mapping[str, Any], tests: str) -> None:
    """Raise SolutionFailed unless the tests passed."""
    if message.get("verdict") == "passed":
        return
    why, line = str(message.get("why")), message.get("line")
    lines = tests.splitlines()
    at = lines[line - 1].strip() if isinstance(line, int) and 0 < line <= len(lines) else ""
    raise SolutionFailed(Reason.TESTS_FAILED, f"{why} in `{at}`"[:500] if at else why[:500])
