"""Untrusted programs, run under limits in the strictest isolation of this machine.

    sandbox = ConfinedRunner(probe=["/bin/sh", "-c", "exit 0"])
    done = await sandbox.run(["/bin/sh", "-c", "echo hello"], limits=SandboxLimits(wall_s=2))
    done.stdout, done.ending, done.isolation

The available isolation is probed once, by running a program in it, and every result carries it. Without bubblewrap a
warning says what programs can reach, and without any isolation nothing runs, unless that is allowed. A program that
cannot be started raises `VerifierError` and gives no result, so that a fault of the machine is never scored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nemo_gym.config.current import allows_unsandboxed
from nemo_gym.failures import ConfigError, VerifierError
from nemo_gym.isolation.confinement import Isolation, describe_reach, isolations
from nemo_gym.isolation.confinement import IsolationKind as IsolationKind
from nemo_gym.isolation.confinement import SandboxLimits as SandboxLimits
from nemo_gym.isolation.confinement import Workspace as Workspace
from nemo_gym.isolation.leftovers import WORKSPACE_PREFIX, lock_place, remove_dead_workspaces, remove_tree
from nemo_gym.isolation.memory import can_limit_memory, lacks_cpu_count
from nemo_gym.isolation.process import SandboxedProcess as SandboxedProcess
from nemo_gym.isolation.process import start_process
from nemo_gym.isolation.python_installation import PythonInstallation
from nemo_gym.isolation.system_calls import call_filter
from nemo_gym.isolation.time_limits import Ending as Ending
from nemo_gym.isolation.users import SandboxUser, claim_user, remove_dead_users
from nemo_gym.names import ALLOW_UNSANDBOXED

__all__ = [
    "ConfinedRunner",
    "Ending",
    "IsolationKind",
    "SandboxLimits",
    "SandboxedProcess",
    "Workspace",
    "new_workspace",
    "remove_workspace",
]

_log = logging.getLogger(__name__)

PROBE_LIMITS = SandboxLimits(wall_s=60.0)
_PROBE_ANSWER_CHARS = 300
_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")

ENVIRONMENT: Mapping[str, str] = {"PYTHONHASHSEED": "0"}
"""The whole environment of a program. The fixed hash seed makes verdicts repeatable."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The result of a program that ended by itself or was killed."""

    stdout: bytes
    stderr: bytes
    exit_status: int
    """128 + its number for a signal; negative if the process that confines the program was killed."""
    ending: Ending
    isolation: IsolationKind
    seconds: float


class ConfinedRunner:
    """Runs programs in the strictest isolation that works on this machine.

    `probe` is a command that exits with status 0; an isolation works if the command runs in it. `readable` are the
    folders besides /usr that programs need, and `python` is their interpreter. `require_sandbox` accepts bubblewrap
    only. With `own_network`, programs have a loopback interface of their own and no other network, unless they are
    `unsandboxed`. `candidates` are the isolations to try, by default those of this machine, and none at all only if the
    global key `allow_unsandboxed` is set.
    """

    def __init__(
        self,
        *,
        probe: Sequence[str],
        readable: Sequence[Path] = (),
        python: PythonInstallation | None = None,
        require_sandbox: bool = False,
        own_network: bool = False,
        candidates: Iterable[Isolation] | None = None,
    ) -> None:
        self._probe = tuple(probe)
        self._readable = tuple(readable)
        self._python = python
        self._candidates = candidates
        self._require_sandbox = require_sandbox
        self._own_network = own_network
        self._isolation: Isolation | None = None
        self._finding = asyncio.Lock()

    @classmethod
    def from_python(cls, python: PythonInstallation, *, require_sandbox: bool = False) -> ConfinedRunner:
        """A runner of programs of an interpreter."""
        return cls(
            probe=python.command("pass"),
            readable=python.folders,
            python=python,
            require_sandbox=require_sandbox,
        )

    async def isolation(self) -> IsolationKind:
        """The isolation in use.

        Raises ConfigError if none works that the options accept.
        """
        return (await self._find_once()).kind

    async def describe(self) -> str:
        """The isolation in use, what programs can reach in it, and what does not hold on this machine.

        Raises ConfigError as `isolation` does.
        """
        isolation = await self._find_once()
        clauses = [describe_reach(isolation.kind), *_find_gaps(isolation)]
        return f"isolation `{isolation.kind}`, {'; '.join(clauses)}"

    @contextlib.asynccontextmanager
    async def workspace(self) -> AsyncIterator[Workspace]:
        """Create a folder for programs; it is deleted at the end of the block."""
        workspace = await self.make_workspace()
        try:
            yield workspace
        finally:
            await remove_workspace(workspace)

    async def make_workspace(self, seen_as: Path | None = None, *, parent: Path | None = None) -> Workspace:
        """Create a folder for programs, to be deleted with `remove_workspace`; by default in the temporary folder.

        Raises ConfigError if `seen_as` is given without a sandbox that can mount the folder there.
        """
        isolation = await self._find_once()
        if seen_as is not None and isolation.kind is not IsolationKind.BUBBLEWRAP:
            raise ConfigError(
                f"Without a sandbox, a workspace cannot be mounted at {seen_as}.",
                code="sandbox_unavailable",
                remedy="Install bubblewrap, or use paths relative to the workspace.",
            )
        return await asyncio.to_thread(new_workspace_in, isolation, seen_as, parent)

    async def run(
        self,
        program: Sequence[str],
        *,
        stdin: bytes = b"",
        limits: SandboxLimits | None = None,
        workspace: Workspace | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
        cpu_s: float | None = None,
    ) -> Execution:
        """Run `program` with `stdin` as its whole input, and wait for its end, at most for `cpu_s` CPU seconds.

        Raises VerifierError if the machine keeps it from the CPU, or has hardly any memory left.
        """
        start = time.monotonic()
        async with self.open(
            program, stdin=stdin, limits=limits, workspace=workspace, environment=environment
        ) as process:
            output = await process.read_all(process.cpu_limit(cpu_s) if cpu_s is not None else None)
            process.refuse_machine_fault()
            status, seconds = process.exit_status, time.monotonic() - start
            assert status is not None
            return Execution(*output, status, process.ending, process.isolation, seconds)

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
        isolation, limits = await self._find_once(), limits or SandboxLimits()
        async with _running(isolation, program, stdin, limits, workspace, environment) as process:
            yield process

    async def _find_once(self) -> Isolation:
        if self._isolation is None:
            async with self._finding:
                if self._isolation is None:
                    self._isolation = await self._find()
        return self._isolation

    async def _find(self) -> Isolation:
        await asyncio.to_thread(_remove_leftovers)
        reasons = [] if shutil.which("bwrap") else ["bubblewrap (bwrap) is not installed"]
        for isolation in self._list_candidates():
            reason = await self._try(isolation)
            if reason is not None:
                reasons.append(f"{isolation.kind}: {reason}")
            elif self._require_sandbox and isolation.kind is not IsolationKind.BUBBLEWRAP:
                raise ConfigError(
                    f"bubblewrap does not work here ({'; '.join(reasons)}), and require_sandbox is set.",
                    code="sandbox_unavailable",
                    remedy="Install bubblewrap 0.8 or newer, or set require_sandbox to false.",
                )
            else:
                _report(isolation, reasons)
                return isolation
        raise ConfigError(
            f"Untrusted code cannot be run safely here: {'; '.join(reasons)}.",
            code="sandbox_unavailable",
            remedy="Install bubblewrap 0.8 or newer, or run the gym as root with a Python that other users can "
            f"execute. +{ALLOW_UNSANDBOXED}=true runs such code {describe_reach(IsolationKind.UNSANDBOXED)}.",
        )

    def _list_candidates(self) -> Iterator[Isolation]:
        candidates = self._candidates
        if candidates is None:
            candidates = isolations(
                self._readable,
                python=self._python,
                allow_unsandboxed=allows_unsandboxed(),
                own_network=self._own_network,
            )
        for isolation in candidates:
            yield isolation
            weaker = isolation.drop_own_folders()
            if weaker is not None:
                yield weaker

    async def _try(self, isolation: Isolation) -> str | None:
        """The reason why `isolation` does not work here; None if it works."""
        try:
            if isolation.kind is IsolationKind.OWN_USER and self._python is not None:
                # The first call copies the interpreter, if that is necessary.
                await asyncio.to_thread(self._python.build_open_command, self._probe)
            async with _running(isolation, self._probe, b"", PROBE_LIMITS, None, ENVIRONMENT) as process:
                output = await process.read_all()
        except (VerifierError, OSError) as error:
            return str(error)
        if process.exit_status == 0:
            return None
        said = output.stderr.decode(errors="replace").strip()[:_PROBE_ANSWER_CHARS]
        return said or f"the probe ended with status {process.exit_status}"


def _report(isolation: Isolation, reasons: Sequence[str]) -> None:
    kind, gaps = isolation.kind, "".join(f" But {gap}." for gap in _find_gaps(isolation))
    if kind is IsolationKind.BUBBLEWRAP:
        _log.info("Untrusted code runs in bubblewrap, %s.%s", describe_reach(kind), gaps)
        return
    _log.warning(
        "Untrusted code runs %s (isolation `%s`; %s).%s Install bubblewrap 0.8 or newer.",
        describe_reach(kind),
        kind,
        "; ".join(reasons),
        gaps,
    )


def _find_gaps(isolation: Isolation) -> list[str]:
    """The promises that do not hold on this machine, as clauses."""
    uncounted = "the CPU time of a process without a waiting parent counts only until the last look at it"
    no_folders = "this kernel gives it no /tmp of its own, so that"
    read_by_others = f"{no_folders} other programs can read the files that it writes there, until its end"
    found = {
        read_by_others: isolation.has_own_users and not isolation.has_own_folders,
        f"{no_folders} the files that it writes there stay": (
            not isolation.has_own_users and not isolation.has_own_folders
        ),
        "no cgroup can be made here, so that its memory is added up from /proc ten times a second and may exceed the "
        f"limit for a moment; {uncounted}": not can_limit_memory(),
        "nothing bounds what waits in its sockets": not can_limit_memory() and not isolation.has_own_network,
        f"no cgroup counts CPU time here; {uncounted}": lacks_cpu_count(),
        "it can lower its own priority in /proc/self/autogroup, so that its time-out looks as if the machine were "
        "busy": (
            not isolation.has_own_folders and _AUTOGROUP.is_file() and _AUTOGROUP.read_text().strip() != "0"
        ),
        f"the system calls of {platform.machine()} are unknown, so that it can hide memory": call_filter()
        is None,
    }
    return [gap for gap, is_open in found.items() if is_open]


@contextlib.asynccontextmanager
async def _running(
    isolation: Isolation,
    program: Sequence[str],
    stdin: bytes | None,
    limits: SandboxLimits,
    workspace: Workspace | None,
    environment: Mapping[str, str],
) -> AsyncIterator[SandboxedProcess]:
    async with contextlib.AsyncExitStack() as stack:
        if workspace is None and not isolation.has_own_folders:
            workspace = new_workspace_in(isolation)
            stack.push_async_callback(remove_workspace, workspace)
        try:
            launch = isolation.launch(program, limits, workspace)
        except OSError as error:
            raise VerifierError(
                f"A confined program could not be prepared: {error}.", code="sandbox_failed", retryable=True
            ) from error
        process = await start_process(launch, stdin=stdin, environment=environment)
        stack.push_async_callback(process.close)
        yield process


@cache
def _remove_leftovers() -> None:
    """Delete what gyms that were killed have left, once."""
    remove_dead_workspaces()
    if os.geteuid() == 0:
        with contextlib.suppress(VerifierError):  # without a place for claims, the first program says so
            remove_dead_users()


def new_workspace_in(
    isolation: Isolation, seen_as: Path | None = None, parent: Path | None = None
) -> Workspace:
    """Create a folder for programs of an isolation."""
    user = claim_user(leaves_files=not isolation.has_own_folders) if isolation.has_own_users else None
    workspace = new_workspace(seen_as, parent, user=user)
    if isolation.kind is not IsolationKind.BUBBLEWRAP:
        workspace.folder.chmod(0o700)
    return workspace


def new_workspace(
    seen_as: Path | None = None, parent: Path | None = None, *, user: SandboxUser | None = None
) -> Workspace:
    """Create a folder for programs, which run as a user of their own (as root only) or as the gym's."""
    held = None
    while held is None:  # another gym may have taken the new folder for a dead one's
        folder = Path(tempfile.mkdtemp(prefix=WORKSPACE_PREFIX, dir=parent))
        held = lock_place(folder)
    if user is not None:
        os.chown(folder, user.uid, user.uid)
        folder.chmod(0o711)  # bubblewrap enters it as unprivileged root
    return Workspace(folder, user, seen_as, lock=held)


async def remove_workspace(workspace: Workspace) -> None:
    """Delete a workspace with its files, after the end of its programs."""
    await asyncio.to_thread(_remove_workspace, workspace)


def _remove_workspace(workspace: Workspace) -> None:
    remove_tree(workspace.folder)
    if workspace.lock is not None:
        workspace.lock.release()
    if workspace.user is not None:
        workspace.user.release()


async def announcement(code_runners: Sequence[str]) -> str:
    """A line that names the isolation in which servers run code of models. Raises ConfigError if none works."""
    described = await ConfinedRunner.from_python(PythonInstallation.from_gym()).describe()
    return f"{', '.join(code_runners)}: code of models runs in {described}"
