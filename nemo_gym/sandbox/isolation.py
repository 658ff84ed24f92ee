"""The command line that isolates an untrusted program from the machine.

    bubblewrap   own pid, network, IPC and host namespaces; a read-only root with /usr and the folders that the
                 caller names; a private /tmp; no access to the host's processes, files or network
    process      a process in its own session under resource limits, with an empty environment and a private
                 folder. It can read the host's files and use its network: for trusted machines only

In both, `prlimit` sets the limits. A gym that runs as root gives every program a random user of its own (`setpriv`),
because process limits count per user and a user can signal only its own processes. No program ever runs as root: an
executable that other users cannot run (a Python in /root) is mounted by bubblewrap, and refused without it.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import psutil

from nemo_gym.failures import ConfigError

MIB = 1 << 20


class IsolationKind(StrEnum):
    """The isolation of a program; part of every result."""

    BUBBLEWRAP = "bubblewrap"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Resource limits of a confined program."""

    wall_s: float = 10.0
    """Seconds from its start until it is killed with all its descendants."""
    memory_bytes: int = 1024 * MIB
    """Limit for the address space of each process and for the resident memory of all together."""
    file_bytes: int = 64 * MIB
    """Size of the largest file it may write, and of its private /tmp."""
    output_bytes: int = 4 * MIB
    """Bytes it may print to stdout and stderr together before it is killed."""
    processes: int = 64
    """Simultaneous processes and threads."""
    open_files: int = 256


@dataclass(frozen=True, slots=True)
class Workspace:
    """A writable folder that several programs share in turn."""

    folder: Path
    user: int | None = None
    """The user that its programs run as, if each workspace has its own."""
    seen_as: Path | None = None
    """The path at which programs see it; None for its real path. Another path needs a sandbox."""

    @property
    def place(self) -> Path:
        """The path at which programs see it."""
        return self.seen_as or self.folder


@dataclass(frozen=True, slots=True)
class Launch:
    """A complete command that runs a program confined."""

    command: tuple[str, ...]
    user: int | None
    """The random user that owns all its processes; None if it runs as the gym's user."""


Confine: TypeAlias = Callable[[Sequence[str], SandboxLimits, Workspace | None, int | None], list[str]]
"""Builds the command that runs a program under limits, in a workspace, as a user."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """One way to confine programs on this machine."""

    kind: IsolationKind
    draws_user: bool
    """True if each program runs as a random user of its own."""
    confine: Confine

    def launch(self, program: Sequence[str], limits: SandboxLimits, workspace: Workspace | None) -> Launch:
        """Build the command for `program`, run as the workspace's user or a new one."""
        user = workspace.user if workspace else None
        if self.draws_user and user is None:
            user = draw_user()
        return Launch(tuple(self.confine(program, limits, workspace, user)), user)


def isolations(readable: Sequence[Path]) -> Iterator[Isolation]:
    """Yield the isolations to try on this machine, strictest first. `readable` are the folders that programs need.

    Raises ConfigError if not even limits can be set.
    """
    prlimit, setpriv, bwrap = (shutil.which(name) for name in ("prlimit", "setpriv", "bwrap"))
    if prlimit is None:
        raise ConfigError(
            "Untrusted code cannot be run here: `prlimit`, which sets its limits, is not installed.",
            code="sandbox_unavailable",
            remedy="Use Linux with util-linux installed.",
        )
    is_root = os.geteuid() == 0
    if bwrap is not None and (setpriv is not None or not is_root):
        yield _bubblewrap(bwrap, setpriv if is_root else None, prlimit, readable)
    if is_root and setpriv is not None:
        yield _process(prlimit, lambda user: _as_user(setpriv, user), draws_user=True)
    elif not is_root:
        prefix = [setpriv, "--no-new-privs"] if setpriv else []
        yield _process(prlimit, lambda _: prefix, draws_user=False)


def _bubblewrap(bwrap: str, setpriv: str | None, prlimit: str, readable: Sequence[Path]) -> Isolation:
    def confine(
        program: Sequence[str], limits: SandboxLimits, workspace: Workspace | None, user: int | None
    ) -> list[str]:
        drop = [] if setpriv is None or user is None else _as_user(setpriv, user)
        return [
            bwrap,
            *_namespaces(is_root=setpriv is not None),
            *_root_filesystem(limits, readable, workspace),
            "--",
            *drop,
            *_limited(prlimit, limits, limits.processes),
            *program,
        ]

    return Isolation(IsolationKind.BUBBLEWRAP, draws_user=setpriv is not None, confine=confine)


def _namespaces(*, is_root: bool) -> list[str]:
    shared = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    # Root can create the other namespaces without a user namespace, and `setpriv` then changes the user. In a user
    # namespace created by root the program would count as root, which is exempt from the limit on processes.
    users = (
        ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        if is_root
        else ["--unshare-user", "--disable-userns"]
    )
    return [*shared, *users, "--die-with-parent", "--new-session"]


_SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")


def _root_filesystem(
    limits: SandboxLimits, readable: Sequence[Path], workspace: Workspace | None
) -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM_FOLDERS:
        path = Path(name)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            arguments += ["--ro-bind", name, name]
    arguments += ["--dir", "/etc", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for name in ("/tmp", "/dev/shm"):
        arguments += ["--perms", "1777", "--size", str(limits.file_bytes), "--tmpfs", name]
    for path in readable:
        if not path.is_relative_to("/usr"):
            arguments += [*_parents(path), "--ro-bind", str(path), str(path)]
    if workspace is not None:
        arguments += [*_parents(workspace.place), "--bind", str(workspace.folder), str(workspace.place)]
    place = workspace.place if workspace else Path("/tmp")
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(place)]


def _parents(path: Path) -> list[str]:
    """Arguments that create the folders above `path`: bubblewrap itself creates some with mode 0700."""
    parents = [str(parent) for parent in reversed(path.parents) if parent != parent.parent]
    return [part for parent in parents for part in ("--dir", parent)]


def _process(prlimit: str, prefix: Callable[[int], list[str]], *, draws_user: bool) -> Isolation:
    def confine(
        program: Sequence[str], limits: SandboxLimits, workspace: Workspace | None, user: int | None
    ) -> list[str]:
        # The gym's own user has other processes, which count towards the limit; a random user has none.
        others = 0 if draws_user else _tasks_of_own_user()
        drop = prefix(user if user is not None else os.geteuid())
        return [*drop, *_limited(prlimit, limits, limits.processes + others), *program]

    return Isolation(IsolationKind.PROCESS, draws_user=draws_user, confine=confine)


def _as_user(setpriv: str, user: int) -> list[str]:
    return [
        setpriv,
        *(f"--reuid={user}", f"--regid={user}", "--clear-groups"),
        *("--inh-caps=-all", "--no-new-privs"),
    ]


def _limited(prlimit: str, limits: SandboxLimits, processes: int) -> list[str]:
    values = {
        "as": limits.memory_bytes,
        "core": 0,
        "cpu": math.ceil(limits.wall_s) + 1,
        "fsize": limits.file_bytes,
        "nofile": limits.open_files,
        "nproc": processes,
    }
    return [prlimit, *(f"--{name}={value}:{value}" for name, value in values.items()), "--"]


def _tasks_of_own_user() -> int:
    """Count the processes and threads of the gym's user."""
    own = os.geteuid()
    found = psutil.process_iter(["uids", "num_threads"])
    return sum(
        process.info["num_threads"] or 1
        for process in found
        if process.info["uids"] is not None and process.info["uids"].real == own
    )


_SPARSE_USERS = (1 << 24, 1 << 30)
"""A range of user ids that no real account uses, if the user namespace maps it."""


def draw_user() -> int:
    """A random user id, unused with near certainty."""
    mapped = max(
        (tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()),
        key=lambda fields: fields[2],
    )
    start, count = mapped[0], mapped[2]
    low, high = (
        _SPARSE_USERS if start == 0 and count > _SPARSE_USERS[1] else (start + count // 2, start + count - 2)
    )
    return low + secrets.randbelow(max(high - low, 1))
