"""How a program of strangers is kept from the machine: the command line that confines it.

    bubblewrap   own pid, network, IPC and host namespaces; a read-only root that holds /usr and what the caller
                 names; private /tmp; nothing of the host's processes, files or network
    process      a process of its own session under resource limits, with an empty environment and a private
                 folder. It sees the host's files and network: for trusted machines only

In both, `prlimit` sets the limits, and a gym that runs as root gives every program a user of its own (`setpriv`),
drawn at random: limits on processes are counted by user, and a user can signal only its own processes. No program
ever runs as root: where other users cannot execute it (a Python in /root), bubblewrap maps it in, and a machine
without bubblewrap refuses to run it.
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
    """How well a program was confined; every result of an execution says so."""

    BUBBLEWRAP = "bubblewrap"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a confined program may use."""

    wall_s: float = 10.0
    """Seconds from its start to its end, whatever it does; then it is killed with everything it started."""
    memory_bytes: int = 1024 * MIB
    """Address space of each process, and resident memory of all of them together."""
    file_bytes: int = 64 * MIB
    """The largest file it may write, and the size of its private /tmp."""
    output_bytes: int = 4 * MIB
    """What it may print; beyond that it is killed."""
    processes: int = 64
    """Processes and threads at the same time."""
    open_files: int = 256


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder that programs may write to and that outlives each of them."""

    folder: Path
    user: int | None = None
    """The user that its programs run as, where users are drawn."""
    seen_as: Path | None = None
    """Where its programs find it; None: where it is. Only a sandbox can show it elsewhere."""

    @property
    def place(self) -> Path:
        """Where its programs find it."""
        return self.seen_as or self.folder


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that confines a program, ready to be executed."""

    command: tuple[str, ...]
    user: int | None
    """The user drawn for it, which owns whatever it started; None where it runs as the gym's own."""


Confine: TypeAlias = Callable[[Sequence[str], Limits, Workspace | None, int | None], list[str]]
"""Gives the command that runs a program under limits, in a workspace, as a user."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """One way to confine programs on this machine."""

    kind: IsolationKind
    draws_user: bool
    """Whether each program gets a user of its own."""
    confine: Confine

    def launch(self, program: Sequence[str], limits: Limits, workspace: Workspace | None) -> Launch:
        """The command for `program`, as the workspace's user or else a new one."""
        user = workspace.user if workspace else None
        if self.draws_user and user is None:
            user = draw_user()
        return Launch(tuple(self.confine(program, limits, workspace, user)), user)


def isolations(readable: Sequence[Path]) -> Iterator[Isolation]:
    """The ways to try on this machine, the strictest first. `readable` are the folders that programs need.

    Raises ConfigError where not even limits can be set.
    """
    prlimit, setpriv, bwrap = (shutil.which(name) for name in ("prlimit", "setpriv", "bwrap"))
    if prlimit is None:
        raise ConfigError(
            "Code of strangers cannot be run here: there is no `prlimit` to limit it with.",
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
        program: Sequence[str], limits: Limits, workspace: Workspace | None, user: int | None
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
    # Root needs no user namespace to set the others up, and `setpriv` then needs to change the user. In a user
    # namespace of root the program would count as root, for whom the limit on processes doesn't hold.
    users = (
        ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        if is_root
        else ["--unshare-user", "--disable-userns"]
    )
    return [*shared, *users, "--die-with-parent", "--new-session"]


_SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")


def _root_filesystem(limits: Limits, readable: Sequence[Path], workspace: Workspace | None) -> list[str]:
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
    """Makes the folders above `path`: left to itself, bubblewrap gives some of them a mode that shuts others out."""
    parents = [str(parent) for parent in reversed(path.parents) if parent != parent.parent]
    return [part for parent in parents for part in ("--dir", parent)]


def _process(prlimit: str, prefix: Callable[[int], list[str]], *, draws_user: bool) -> Isolation:
    def confine(
        program: Sequence[str], limits: Limits, workspace: Workspace | None, user: int | None
    ) -> list[str]:
        # A user drawn for the program has no other processes; the gym's own has, and they count.
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


def _limited(prlimit: str, limits: Limits, processes: int) -> list[str]:
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
    """How many processes and threads the gym's user has, all of which count towards its limit."""
    own = os.geteuid()
    found = psutil.process_iter(["uids", "num_threads"])
    return sum(
        process.info["num_threads"] or 1
        for process in found
        if process.info["uids"] is not None and process.info["uids"].real == own
    )


_SPARSE_USERS = (1 << 24, 1 << 30)
"""Numbers that nobody has, where the user namespace maps them all."""


def draw_user() -> int:
    """A user number that no other process has, as good as certainly."""
    mapped = max(
        (tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()),
        key=lambda fields: fields[2],
    )
    start, count = mapped[0], mapped[2]
    low, high = (
        _SPARSE_USERS if start == 0 and count > _SPARSE_USERS[1] else (start + count // 2, start + count - 2)
    )
    return low + secrets.randbelow(max(high - low, 1))
