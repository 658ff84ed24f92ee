"""The gym's side of the harness protocol: start a harness in a sandbox, send requests and validate its answers.

An answer that is late, too long, unreadable or unexpected is a failure of the solution. A harness that never sends
"ready" is a failure of the machine (`VerifierError`), because the solution has not run by then.
"""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from nemo_gym.failures import ConfigError, VerifierError
from nemo_gym.sandbox.execution import ConfinedRunner
from nemo_gym.sandbox.isolation import IsolationKind, SandboxLimits
from nemo_gym.sandbox.process import Ending, SandboxedProcess
from nemo_gym.verify import _code_harness as code_harness

STARTUP_S = 20.0
"""Seconds until the harness must be ready. Generous, because many harnesses may start at once."""
_MARSHAL_VERSION = 2  # read by every Python 3
_HARNESS_SOURCE = Path(code_harness.__file__).read_text(encoding="utf-8")
_LOCATE = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix]))"


class Reason(StrEnum):
    """The reason for a solution's failure."""

    DOES_NOT_COMPILE = "does_not_compile"
    UNDEFINED_FUNCTION = "undefined_function"
    RAISED = "raised"
    WRONG_ANSWER = "wrong_answer"
    TESTS_FAILED = "tests_failed"
    TIMED_OUT = "timed_out"
    OUTPUT_EXCEEDED = "output_exceeded"
    MEMORY_EXCEEDED = "memory_exceeded"
    PROCESS_ENDED = "process_ended"
    """The solution ended its own process (`os._exit`, a signal) before it answered."""
    NOT_PLAIN_DATA = "not_plain_data"
    """The solution returned an object of some class instead of plain data."""
    BROKEN_PROTOCOL = "broken_protocol"
    """The solution wrote to the pipe between the harness and the gym."""


_REASON_OF_ENDING: Mapping[Ending, Reason] = {
    Ending.EXITED: Reason.PROCESS_ENDED,
    Ending.TIMED_OUT: Reason.TIMED_OUT,
    Ending.OUTPUT_EXCEEDED: Reason.OUTPUT_EXCEEDED,
    Ending.MEMORY_EXCEEDED: Reason.MEMORY_EXCEEDED,
    Ending.STOPPED: Reason.PROCESS_ENDED,
}


class SolutionFailed(Exception):
    """A failure of the solution, raised at any point of its run."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class PythonInstallation:
    """The interpreter that runs solutions, and the folders it reads."""

    executable: str
    folders: tuple[Path, ...]
    flags: tuple[str, ...]

    @classmethod
    def of_the_gym(cls) -> PythonInstallation:
        """Return the base interpreter of the gym's environment: the standard library without packages."""
        executable = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        return cls(executable, _folders_of(executable, [sys.base_prefix]), ("-s", "-S", "-B", "-X", "utf8"))

    @classmethod
    def at(cls, executable: str) -> PythonInstallation:
        """Return another interpreter, 3.9 or newer, with the packages of its environment.

        Raises ConfigError when it does not run.
        """
        executable = str(Path(shutil.which(executable) or executable).absolute())
        try:
            done = subprocess.run(
                [executable, "-c", _LOCATE], capture_output=True, text=True, timeout=STARTUP_S, check=True
            )
            prefixes: list[str] = json.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise ConfigError(
                f"python_executable: {executable} does not run: {error}", code="python_unusable"
            ) from error
        return cls(executable, _folders_of(executable, prefixes), ("-s", "-B", "-X", "utf8"))

    def command(self, source: str) -> list[str]:
        return [self.executable, *self.flags, "-c", source]

    def make_sandbox(self, *, require_sandbox: bool) -> ConfinedRunner:
        """Return a sandbox in which this interpreter runs."""
        return ConfinedRunner(
            probe=self.command("pass"), readable=self.folders, require_sandbox=require_sandbox
        )


def _folders_of(executable: str, prefixes: Sequence[str]) -> tuple[Path, ...]:
    """Return the folders an interpreter reads: its prefixes, with and without symbolic links, without nested ones."""
    home = Path(os.path.realpath(executable)).parents[1]
    found = (
        {Path(prefix) for prefix in prefixes}
        | {Path(os.path.realpath(prefix)) for prefix in prefixes}
        | {home}
    )
    return tuple(sorted(folder for folder in found if found.isdisjoint(folder.parents)))


class Harness:
    """A running harness that has reported that it is ready."""

    def __init__(self, process: SandboxedProcess) -> None:
        self._process = process

    @property
    def isolation(self) -> IsolationKind:
        return self._process.isolation

    async def send(self, message: Any, timeout_s: float) -> None:
        """Send plain data. Raises SolutionFailed when it is nested too deeply."""
        try:
            body = marshal.dumps(message, _MARSHAL_VERSION)
        except ValueError as error:
            raise SolutionFailed(Reason.NOT_PLAIN_DATA, "it is nested too deep") from error
        await self._process.send(len(body).to_bytes(8, "big") + body, timeout_s)

    async def receive(self, timeout_s: float) -> dict[str, Any]:
        """Return the next answer, checked only to be a JSON object. Raises SolutionFailed when there is none."""
        line = await self._process.read_line(timeout_s)
        if line is None:
            raise SolutionFailed(_REASON_OF_ENDING[self._process.ending], self._last_words())
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer") from error
        if not isinstance(message, dict):
            raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")
        return message

    def _last_words(self) -> str:
        if self._process.ending is not Ending.EXITED:
            return ""
        lines = self._process.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1][: code_harness.LONGEST_MESSAGE] if lines else ""


@contextlib.asynccontextmanager
async def open_harness(
    sandbox: ConfinedRunner, python: PythonInstallation, limits: SandboxLimits
) -> AsyncIterator[Harness]:
    """Start a harness in a new sandbox. `limits.wall_s` counts from the moment it is ready."""
    lifetime = replace(limits, wall_s=limits.wall_s + STARTUP_S)
    async with sandbox.open(python.command(_HARNESS_SOURCE), limits=lifetime) as process:
        line = await process.read_line(STARTUP_S)
        if line is None:
            said = process.stderr.decode(errors="replace").strip()[-code_harness.LONGEST_MESSAGE :]
            raise VerifierError(
                f"A sandbox did not start ({process.ending}): {said or 'its stderr is empty'}.",
                code="sandbox_failed",
                retryable=True,
            )
        yield Harness(process)


def read_value(tagged: Any) -> Any:
    """Return the value that `code_harness.dump` wrote. Raises SolutionFailed when it is not plain data."""
    try:
        return _read(tagged)
    except (TypeError, ValueError, KeyError, RecursionError, OverflowError) as error:
        raise SolutionFailed(Reason.NOT_PLAIN_DATA, "unreadable value") from error


def _read(tagged: Any) -> Any:
    if isinstance(tagged, list):
        return [_read(item) for item in tagged]
    if not isinstance(tagged, dict):
        return tagged
    ((tag, content),) = tagged.items()
    if tag == "opaque":
        raise SolutionFailed(Reason.NOT_PLAIN_DATA, str(content))
    return _READERS[tag](content)


def _read_dict(pairs: Any) -> dict[Any, Any]:
    return {_read(key): _read(value) for key, value in pairs}


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "tuple": lambda items: tuple(map(_read, items)),
    "set": lambda items: set(map(_read, items)),
    "frozenset": lambda items: frozenset(map(_read, items)),
    "dict": _read_dict,
    "bytes": bytes.fromhex,
    "int": lambda digits: int(digits, 16),
    "float": float,
    "complex": lambda parts: complex(_read(parts[0]), _read(parts[1])),
}
