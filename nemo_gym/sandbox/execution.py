"""Programs of strangers, run under limits and, where the machine has bubblewrap, in a sandbox.

    sandbox = Sandbox(probe=["/bin/sh", "-c", "exit 0"])
    done = await sandbox.run(["/bin/sh", "-c", "echo hello"], limits=Limits(wall_s=2))
    done.stdout, done.ending, done.isolation

Which isolation a machine has is found out once, by trying (`sandbox_isolation`). Without bubblewrap the gym says so
once, plainly, and every result says it again; `require_sandbox` refuses to go on. A program that could not be
started is a `VerifierError`, never a result: nobody may be scored for what the machine lacked.
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
    Limits,
    Workspace,
    draw_user,
    isolations,
)
from nemo_gym.sandbox.process import Ending, SandboxedProcess, start_process

__all__ = ["Ending", "Execution", "IsolationKind", "Limits", "Sandbox", "SandboxedProcess", "Workspace"]

_log = logging.getLogger(__name__)

PROBE_LIMITS = Limits(wall_s=10.0)
_PROBE_ANSWER_CHARS = 300

ENVIRONMENT: Mapping[str, str] = {"PYTHONHASHSEED": "0"}
"""All that a program gets: nothing of the gym's, and one hash seed, so that a verdict can be repeated."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A program that ran to its end, of whatever kind."""

    stdout: bytes
    stderr: bytes
    exit_status: int
    """Negative for a signal. In a sandbox a signal arrives as 128 + its number."""
    ending: Ending
    isolation: IsolationKind
    seconds: float


class Sandbox:
    """Runs programs confined, in the strictest way that works here.

    `probe` is a command that ends with status 0 at once; a way to confine works when it runs. `readable` are the
    folders beside /usr that programs need. `ways` are the ways to try, those of this machine unless given.
    """

    def __init__(
        self,
        *,
        probe: Sequence[str],
        readable: Sequence[Path] = (),
        require_sandbox: bool = False,
        ways: Iterable[Isolation] | None = None,
    ) -> None:
        self._probe = tuple(probe)
        self._readable = tuple(readable)
        self._ways = ways
        self._require_sandbox = require_sandbox
        self._isolation: Isolation | None = None
        self._finding = asyncio.Lock()

    async def isolation(self) -> IsolationKind:
        """How programs are confined here.

        Raises ConfigError where they can't be, or only without a sandbox although one is required.
        """
        return (await self._found()).kind

    @contextlib.asynccontextmanager
    async def workspace(self) -> AsyncIterator[Workspace]:
        """A new folder for programs; it is deleted at the end."""
        workspace = await self.make_workspace()
        try:
            yield workspace
        finally:
            await remove_workspace(workspace)

    async def make_workspace(self, seen_as: Path | None = None) -> Workspace:
        """A new folder for programs, to be removed with `remove_workspace`.

        Raises ConfigError where it is to be seen elsewhere than it is, but there is no sandbox.
        """
        isolation = await self._found()
        if seen_as is not None and isolation.kind is not IsolationKind.BUBBLEWRAP:
            raise ConfigError(
                f"Without a sandbox programs cannot find their files in {seen_as}.",
                code="sandbox_unavailable",
                remedy="Install bubblewrap, or use paths relative to the workspace.",
            )
        return _make_workspace(isolation, seen_as)

    async def run(
        self,
        program: Sequence[str],
        *,
        stdin: bytes = b"",
        limits: Limits | None = None,
        workspace: Workspace | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> Execution:
        """Run `program` with `stdin` as its whole input, to its end."""
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
        limits: Limits | None = None,
        workspace: Workspace | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> AsyncIterator[SandboxedProcess]:
        """`program` running; it is ended with everything it started when the block is left.

        `stdin` is its whole input; without it, it waits for what it is sent.
        Without a `workspace` it can write to a private /tmp (or, without a sandbox, a folder) that goes with it.
        """
        isolation = await self._found()
        async with contextlib.AsyncExitStack() as stack:
            if workspace is None and isolation.kind is IsolationKind.PROCESS:
                workspace = _make_workspace(isolation)
                stack.push_async_callback(remove_workspace, workspace)
            process = await _start(isolation, program, stdin, limits or Limits(), workspace, environment)
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
        for isolation in isolations(self._readable) if self._ways is None else self._ways:
            reason = await self._try(isolation)
            if reason is None:
                self._report(isolation.kind, reasons)
                return isolation
            reasons.append(f"{isolation.kind}: {reason}")
        raise ConfigError(
            f"Untrusted code cannot be run safely here: {'; '.join(reasons)}.",
            code="sandbox_unavailable",
            remedy="Install bubblewrap 0.8 or newer, or run the gym with a Python that other users can execute: "
            "untrusted code never runs as root.",
        )

    async def _try(self, isolation: Isolation) -> str | None:
        """Why `isolation` doesn't work here; None when it does."""
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
            _log.info("Code of strangers runs in a sandbox (bubblewrap).")
            return
        why = "; ".join(reasons)
        if self._require_sandbox:
            raise ConfigError(
                f"There is no sandbox for code of strangers ({why}), and require_sandbox is set.",
                code="sandbox_unavailable",
                remedy="Install bubblewrap 0.8 or newer, or set require_sandbox to false on a machine "
                "that holds nothing of worth.",
            )
        _log.warning(
            "There is no sandbox for code of strangers (%s). It runs under limits, but it sees this machine's "
            "files and network, and can end other processes of its user: isolation is `process`. Install "
            "bubblewrap 0.8 or newer, or set require_sandbox to refuse to start without it.",
            why,
        )


async def _start(
    isolation: Isolation,
    program: Sequence[str],
    stdin: bytes | None,
    limits: Limits,
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
        folder.chmod(0o711)  # bubblewrap enters it as root without privileges
    return Workspace(folder, user, seen_as)


async def remove_workspace(workspace: Workspace) -> None:
    """Delete a workspace and all that programs left in it."""
    await asyncio.to_thread(shutil.rmtree, workspace.folder, ignore_errors=True)
