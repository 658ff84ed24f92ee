"""The gym's side of the harness protocol: start a harness in a sandbox, send requests and receive its answers.

An answer that is late, too long, unreadable or unexpected is a failure of the solution. A harness that never sends
`ready`, or that other programs kept from the CPU, is a failure of the machine (`VerifierError`).
"""

from __future__ import annotations

import contextlib
import json
import marshal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.failures import VerifierError
from nemo_gym.isolation.confinement import SandboxLimits
from nemo_gym.isolation.execution import ConfinedRunner
from nemo_gym.isolation.process import SandboxedProcess
from nemo_gym.isolation.python_installation import PythonInstallation
from nemo_gym.isolation.time_limits import Ending, TimeLimit
from nemo_gym.verify import _code_harness as code_harness
from nemo_gym.verify._code_verdicts import Reason, SolutionFailed

STARTUP_S = 60.0
"""Seconds until the harness must be ready. Generous, because many harnesses may start at once."""
_MARSHAL_VERSION = 2  # read by every Python 3
_HARNESS_SOURCE = Path(code_harness.__file__).read_text(encoding="utf-8")
_LONGEST_SHORT_PAYLOAD = 16 * 1024
_LONGEST_WORD = 20


_REASON_OF_ENDING: Mapping[Ending, Reason] = {
    Ending.EXITED: Reason.PROCESS_ENDED,
    Ending.TIMED_OUT: Reason.TIMED_OUT,
    Ending.BLOCKED: Reason.BLOCKED,
    Ending.OUTPUT_EXCEEDED: Reason.OUTPUT_EXCEEDED,
    Ending.MEMORY_EXCEEDED: Reason.MEMORY_EXCEEDED,
    Ending.STOPPED: Reason.PROCESS_ENDED,
}


class HarnessReply(NamedTuple):
    """An answer of a harness."""

    word: str
    payload: bytes
    """JSON, unless the solution wrote it."""

    def value(self) -> Any:
        """The value of a short payload. Raises SolutionFailed if it is long or not JSON."""
        try:
            if len(self.payload) <= _LONGEST_SHORT_PAYLOAD:
                return json.loads(self.payload)
        except (ValueError, RecursionError):
            pass
        raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")

    def two_texts(self) -> tuple[str, str]:
        """The name and the message of an exception. Raises SolutionFailed if the payload is something else."""
        pair = self.value()
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair):
            return pair[0], pair[1]
        raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")


@dataclass(frozen=True, slots=True)
class Harness:
    """A running harness that has reported that it is ready."""

    process: SandboxedProcess

    async def send(self, message: Any, limit: TimeLimit) -> None:
        """Send plain data."""
        body = marshal.dumps(message, _MARSHAL_VERSION)
        await self.process.send(len(body).to_bytes(8, "big") + body, limit)

    async def receive(self, limit: TimeLimit) -> HarnessReply:
        """Return the next answer, unchecked. Raises SolutionFailed when there is none."""
        line = await self.process.read_line(limit)
        if line is not None:
            # The harness outlives a program that the kernel killed, and reports its signal.
            if self.process.has_lost_process_to_memory():
                raise SolutionFailed(Reason.MEMORY_EXCEEDED)
            word, _, payload = line.partition(b" ")
            return HarnessReply(word[:_LONGEST_WORD].decode(errors="replace"), payload)
        self.process.refuse_machine_fault()
        raise SolutionFailed(_REASON_OF_ENDING[self.process.ending], self._last_words())

    def _last_words(self) -> str:
        if self.process.ending is not Ending.EXITED:
            return ""
        lines = self.process.stderr.decode(errors="replace").strip().splitlines()
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
