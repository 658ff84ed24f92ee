"""Untrusted programs, run under limits and, where bubblewrap is installed, in a sandbox.

    sandbox = ConfinedRunner(probe=["/bin/sh", "-c", "exit 0"])
    done = await sandbox.run(["/bin/sh", "-c", "echo hello"], limits=SandboxLimits(wall_s=2))
    done.stdout, done.ending, done.isolation

The available isolation is probed once, by running a program in it. Without bubblewrap a warning is logged once, and
every result carries its isolation; `require_sandbox` raises instead. A program that cannot be started raises
`VerifierError` and gives no result, so that a fault of the machine is never scored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_gym.failures import ConfigError, VerifierError
from nemo_gym.sandbox.isolation import (
    Isolation,
    IsolationKind,
    SandboxLimits,
    Workspace,
    draw_user,
    isolations,
)
from nemo_gym.sandbox.process import Ending, SandboxedProcess, start_process

__all__ = [
    "ConfinedRunner",
    "Ending",
    "Execution",
    "IsolationKind",
    "SandboxLimits",
    "SandboxedProcess",
    "Workspace",
]

_log = logging.getLogger(__name__)

PROBE_LIMITS = SandboxLimits(wall_s=10.0)
_PROBE_ANSWER_CHARS = 300

ENVIRONMENT: Mapping[str, str] = {"PYTHONHASHSEED": "0"}
"""The whole environment of a program. The fixed hash seed makes verdicts repeatable."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The result of a program that ended by itself or was killed."""

    stdout: bytes
    stderr: bytes
    exit_status: int
    """Negative for a signal. In a sandbox a signal arrives as 128 + its number."""
    ending: Ending
    isolation: IsolationKind
    seconds: float


class ConfinedRunner:
    """Runs programs in the strictest isolation that works on this machine.

    `probe` is a command that exits with status 0; an isolation works if the command runs in it. `readable` are the
    folders besides /usr that programs need. `candidates` are the isolations to try, by default those of this machine.
    """

    def __init__(
        self,
        *,
        probe: Sequence[str],
        readable: Sequence[Path] = (),
        require_sandbox: bool = False,
        candidates: Iterable[Isolation] | None = None,
    ) -> None:
        self._probe = tuple(probe)
        self._readable = tuple(readable)
        self._candidates = candidates
        self._require_sandbox = require_sandbox
        self._isolation: Isolation | None = None
        self._finding = asyncio.Lock()

    async def isolation(self) -> IsolationKind:
        """The isolation in use.

        Raises ConfigError if none works, or if only `process` works and a sandbox is required.
        """
        return (await self._found()).kind

    @contextlib.asynccontextmanager
    async def workspace(self) -> AsyncIterator[Workspace]:
        """Create a folder for programs; it is deleted at the end of the block."""
        workspace = await self.make_workspace()
        try:
            yield workspace
        finally:
            await remove_workspace(workspace)

    async def make_workspace(self, seen_as: Path | None = None) -> Workspace:
        """Create a folder for programs, to be deleted with `remove_workspace`.

        Raises ConfigError if `seen_as` is given without a sandbox that can mount the folder there.
        """
        isolation = await self._found()
        if seen_as is not None and isolation.kind is not IsolationKind.BUBBLEWRAP:
            raise ConfigError(
                f"Without a sandbox, a workspace cannot be mounted at {seen_as}.",
                code="sandbox_unavailable",
                remedy="Install bubblewrap, or use paths relative to the workspace.",
            )
        return _make_workspace(isolation, seen_as)

    async def run(
        self,
        program: Sequence[str],
        *,
        stdin: bytes = b"",
        limits: SandboxLimits | None = None,
        workspace: Workspace | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> Execution:
        """Run `program` with `stdin` as its whole input, and wait for its end."""
        start = time.monotonic()
        async with self.open(
            program, stdin=stdin, limits=limits, workspace=workspace, environment=environment
        ) as process:
            output = await process.read_all()
            status = process.exit_status
            assert status is not None
            return Execution(
                output.stdout,
                output.stderr,
                status,
                process.ending,
                process.isolation,
                time.monotonic() - start,
            )

    @contextlib.asynccontextmanager
    async def open(
        self,
        program: Sequence[str],
        *,
        stdin: bytes | None = None,
        limits: SandboxLimits | None = None,
        workspace: Workspace | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> AsyncIterator[SandboxedProcess]:
        """Start `program`; it is killed with all its descendants at the end of the block.

        `stdin` is its whole input; None opens a stream for `SandboxedProcess.send`. Without a `workspace` it can
        write to a private /tmp (without a sandbox, to a temporary folder), which is deleted with it.
        """
        isolation = await self._found()
        async with contextlib.AsyncExitStack() as stack:
            if workspace is None and isolation.kind is IsolationKind.PROCESS:
                workspace = _make_workspace(isolation)
                stack.push_async_callback(remove_workspace, workspace)
            process = await _start(
                isolation, program, stdin, limits or SandboxLimits(), workspace, environment
            )
            stack.push_async_callback(process.close)
            yield process

    async def _found(self) -> Isolation:
        if self._isolation is None:
            async with self._finding:
                if self._isolation is None:
                    self._isolation = await self._find()
        return self._isolation

    async def _find(self) -> Isolation:
        reasons = [] if shutil.which("bwrap") else ["bubblewrap (bwrap) is not installed"]
        for isolation in isolations(self._readable) if self._candidates is None else self._candidates:
            reason = await self._try(isolation)
            if reason is None:
                self._report(isolation.kind, reasons)
                return isolation
            reasons.append(f"{isolation.kind}: {reason}")
        raise ConfigError(
            f"Untrusted code cannot be run safely here: {'; '.join(reasons)}.",
            code="sandbox_unavailable",
            remedy="Install bubblewrap 0.8 or newer, or run the gym with a Python that other users can execute; "
            "untrusted code never runs as root.",
        )

    async def _try(self, isolation: Isolation) -> str | None:
        """The reason why `isolation` does not work here; None if it works."""
        folder = None if isolation.kind is IsolationKind.BUBBLEWRAP else _make_workspace(isolation)
        try:
            process = await _start(isolation, self._probe, b"", PROBE_LIMITS, folder, ENVIRONMENT)
            try:
                output = await process.read_all()
                if process.exit_status == 0:
                    return None
            finally:
                await process.close()
        except VerifierError as error:
            return str(error)
        finally:
            if folder is not None:
                await remove_workspace(folder)
        said = output.stderr.decode(errors="replace").strip()[:_PROBE_ANSWER_CHARS]
        return said or f"the probe ended with status {process.exit_status}"

    def _report(self, kind: IsolationKind, reasons: Sequence[str]) -> None:
        if kind is IsolationKind.BUBBLEWRAP:
            _log.info("Untrusted code runs in a sandbox (bubblewrap).")
            return
        why = "; ".join(reasons)
        if self._require_sandbox:
            raise ConfigError(
                f"No sandbox is available for untrusted code ({why}), and require_sandbox is set.",
                code="sandbox_unavailable",
                remedy="Install bubblewrap 0.8 or newer, or set require_sandbox to false on a machine "
                "without valuable data.",
            )
        _log.warning(
            "No sandbox is available for untrusted code (%s). It runs under resource limits (isolation `process`), "
            "but can access this machine's files and network and kill other processes of its user. Install "
            "bubblewrap 0.8 or newer, or set require_sandbox to refuse to start without it.",
            why,
        )


async def _start(
    isolation: Isolation,
    program: Sequence[str],
    stdin: bytes | None,
    limits: SandboxLimits,
    workspace: Workspace | None,
    environment: Mapping[str, str],
) -> SandboxedProcess:
    launch = isolation.launch(program, limits, workspace)
    folder = workspace.folder if workspace else None
    return await start_process(
        launch, isolation.kind, limits, stdin=stdin, environment=environment, folder=folder
    )


def _make_workspace(isolation: Isolation, seen_as: Path | None = None) -> Workspace:
    user = draw_user() if isolation.draws_user else None
    folder = Path(tempfile.mkdtemp(prefix="nemo_gym_sandbox_"))
    if user is not None:
        os.chown(folder, user, user)
        folder.chmod(0o711)  # bubblewrap enters it as unprivileged root
    return Workspace(folder, user, seen_as)


async def remove_workspace(workspace: Workspace) -> None:
    """Delete a workspace with its files."""
    await asyncio.to_thread(shutil.rmtree, workspace.folder, ignore_errors=True)
