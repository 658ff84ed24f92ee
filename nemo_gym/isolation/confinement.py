"""The command line that isolates an untrusted program from the machine.

    bubblewrap    own pid, network, IPC and host namespaces; a read-only root with /usr and the folders that the
                  caller names; a private /tmp; no access to the host's processes, files or network
    own_user      for a gym that runs as root: a user id that no other program has. The program can read files that
                  all users can read and use the network, but cannot write outside its folder and /tmp. On request
                  it gets a network namespace of its own (`nemo_gym.isolation._loopback`)
    unsandboxed   the gym's own user, and only if the command line or `env.yaml` allows it

In all of them `prlimit` sets the limits, a seccomp filter denies the calls that would leave them
(`nemo_gym.isolation.system_calls`), and a gym that runs as root gives every program a user of its own. A supervisor
ends the processes of a program that has no process namespace (`nemo_gym.isolation._supervisor`), and gives it a /tmp of
its own. Where the kernel denies that (a container without CAP_SYS_ADMIN), the files of its user are deleted at its end.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import psutil

from nemo_gym.failures import ConfigError
from nemo_gym.isolation import _loopback as loopback
from nemo_gym.isolation import _supervisor as supervisor
from nemo_gym.isolation.leftovers import PlaceLock, count_entries, count_user_entries, open_folders
from nemo_gym.isolation.memory import MemoryGroup, make_memory_group
from nemo_gym.isolation.memory_count import PRIVATE_FOLDERS
from nemo_gym.isolation.python_installation import PythonInstallation
from nemo_gym.isolation.system_calls import call_filter, write_filter
from nemo_gym.isolation.users import SandboxUser, build_user_command, claim_user

__all__ = ["MIB", "isolations"]

MIB = 1 << 20
_PENDING_SIGNALS = 1024
"""Signals and timers, which the kernel keeps for a user."""


class IsolationKind(StrEnum):
    """The isolation of a program; part of every result."""

    BUBBLEWRAP = "bubblewrap"
    OWN_USER = "own_user"
    UNSANDBOXED = "unsandboxed"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Resource limits of a confined program."""

    wall_s: float = 10.0
    """Seconds from its start until it is killed with all its descendants."""
    memory_bytes: int = 1024 * MIB
    """Limit for the memory of all processes together and, unless it is turned off, the address space of each."""
    limits_address_space: bool = True
    """False for runtimes that reserve more address space than memory, as JavaScript engines do."""
    file_bytes: int = 64 * MIB
    """Size of the largest file it may write."""
    folder_bytes: int = 64 * MIB
    """Size of its private /tmp, and of its /dev/shm."""
    files: int = 65_536
    """Files and folders in its private /tmp, or in its workspace."""
    output_bytes: int = 4 * MIB
    """Bytes it may print to stdout and stderr together before it is killed."""
    processes: int = 64
    """Simultaneous processes and threads."""
    open_files: int = 256


@dataclass(frozen=True, slots=True)
class Workspace:
    """A writable folder that several programs share."""

    folder: Path
    user: SandboxUser | None = None
    """The user that its programs run as, if programs have users of their own."""
    seen_as: Path | None = None
    """The path at which programs see it; None for its real path. Another path needs bubblewrap."""
    mounts: tuple[tuple[Path, Path], ...] = ()
    """Further files, and the paths at which bubblewrap shows them read-only."""
    lock: PlaceLock | None = None
    """Shows other gyms that this one is alive."""

    @property
    def place(self) -> Path:
        """The path at which programs see it."""
        return self.seen_as or self.folder


@dataclass(slots=True)
class Launch:
    """A complete command that runs a program confined, with everything that the program owns."""

    kind: IsolationKind
    limits: SandboxLimits
    workspace: Workspace | None
    user: SandboxUser | None
    """The user of all its processes, if it is not the gym's."""
    owns_user: bool
    """False if the user belongs to a workspace."""
    memory: MemoryGroup | None
    has_own_folders: bool
    """True if its /tmp is its own, and not this machine's."""
    command: tuple[str, ...] = ()
    filter_fd: int | None = None
    """The descriptor from which bubblewrap reads the seccomp filter."""
    inherited: tuple[int, ...] = ()
    """Descriptors that the command inherits; `close_inherited` closes the gym's copies."""
    control: int | None = None
    """The supervisor ends the program when this descriptor is closed; None without a supervisor."""
    borrowed: tuple[int, ...] = ()
    """Descriptors that the command inherits and the gym keeps."""

    def has_too_many_files(self) -> bool:
        """Return whether the files that it can write to this machine's disk are more than its limit."""
        count, most = 0, self.limits.files + 1
        if self.workspace is not None:
            count = count_entries(self.workspace.folder, most)
        if self.user is not None and not self.has_own_folders:
            count += count_user_entries(self.user.uid, most)
        return count >= most

    def close_inherited(self) -> None:
        """Close the gym's copies of descriptors that only the command needs."""
        for descriptor in self.inherited:
            os.close(descriptor)
        self.inherited = ()

    def end(self) -> None:
        """Tell the supervisor, if there is one, to end the program. Idempotent."""
        if self.control is not None:
            os.close(self.control)
            self.control = None

    def close(self) -> None:
        """Release everything that an ended program owned. Blocks up to two seconds."""
        self.close_inherited()
        self.end()
        if self.memory is not None:
            self.memory.remove()
        if self.user is not None and self.owns_user:
            self.user.release()


Confine: TypeAlias = Callable[[Sequence[str], Launch], list[str]]
"""Builds the command that runs a program as its launch asks."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """One way to confine programs on this machine."""

    kind: IsolationKind
    confine: Confine
    has_own_users: bool = False
    """True if each program runs as a user of its own."""
    has_own_folders: bool = True
    """True if each program has a /tmp of its own, which ends with it."""
    has_own_network: bool = False
    """True if each program has a network of its own, whose sockets can be counted."""
    readable: Sequence[Path] = ()
    """Folders that programs need."""

    def drop_own_folders(self) -> Isolation | None:
        """The same isolation for a kernel that denies own folders; None if there is none."""
        is_needless = self.kind is IsolationKind.BUBBLEWRAP or not self.has_own_folders
        return None if is_needless else replace(self, has_own_folders=False)

    def launch(self, program: Sequence[str], limits: SandboxLimits, workspace: Workspace | None) -> Launch:
        """Prepare `program`, run as the workspace's user or a new one. The caller closes the launch.

        Raises OSError if the program cannot be made executable for its user.
        """
        user = workspace.user if workspace else None
        owns_user = user is None
        if self.has_own_users and user is None:
            user = claim_user(leaves_files=not self.has_own_folders)
        memory = make_memory_group(limits.memory_bytes)
        launch = Launch(self.kind, limits, workspace, user, owns_user, memory, self.has_own_folders)
        try:
            self._complete(launch, program)
        except BaseException:
            launch.close()
            raise
        return launch

    def _complete(self, launch: Launch, program: Sequence[str]) -> None:
        if self.kind is IsolationKind.BUBBLEWRAP:
            instructions = call_filter()
            launch.filter_fd = None if instructions is None else write_filter(instructions)
            launch.inherited = () if launch.filter_fd is None else (launch.filter_fd,)
            prefix = launch.memory.build_entry_command() if launch.memory else []
        else:
            theirs, launch.control = os.pipe()
            launch.inherited = (theirs,)
            launch.borrowed = () if launch.user is None else (launch.user.fileno(),)
            folders = self._own_folders(launch) if self.has_own_folders else None
            groups = launch.memory.processes_files if launch.memory else []
            prefix = _build_supervisor_command(theirs, launch.user, groups, folders)
        command = self.confine(program, launch)
        if not os.access(command[0], os.X_OK):  # the prefix could not report it
            raise FileNotFoundError(errno.ENOENT, "it cannot be executed", command[0])
        launch.command = (*prefix, *command)

    def _own_folders(self, launch: Launch) -> supervisor.OwnFolders:
        real = {os.path.realpath(folder): None for folder in PRIVATE_FOLDERS}
        empty = [folder for folder in real if Path(folder).is_dir()]

        def is_hidden(path: Path) -> bool:
            return any(path.is_relative_to(folder) for folder in empty)

        limits, workspace = launch.limits, launch.workspace
        is_closed = self.kind is IsolationKind.OWN_USER
        return {
            "read_only": ["/"]
            if is_closed
            else ["/proc", *(str(each) for each in open_folders() if not is_hidden(each))],
            "empty": empty,
            "options": f"mode=1777,size={limits.folder_bytes},nr_inodes={limits.files}",
            "shown": [str(path) for path in self.readable if is_hidden(path)],
            "workspace": None if workspace is None else str(workspace.folder),
        }


def _build_supervisor_command(
    control: int, user: SandboxUser | None, groups: Sequence[str], folders: supervisor.OwnFolders | None
) -> list[str]:
    instructions = call_filter()
    return [
        *(sys.executable, "-I", "-S", supervisor.__file__, str(control)),
        supervisor.NONE if user is None else str(user.uid),
        json.dumps(groups),
        supervisor.NONE if folders is None else json.dumps(folders),
        supervisor.NONE if instructions is None else instructions.hex(),
    ]


def isolations(
    readable: Sequence[Path],
    *,
    python: PythonInstallation | None = None,
    allow_unsandboxed: bool = False,
    own_network: bool = False,
) -> Iterator[Isolation]:
    """Yield the isolations to try on this machine, strictest first.

    `readable` are the folders that programs need. `python` is the interpreter of programs, which may be copied for
    other users. With `own_network`, programs with a user of their own have no network but a loopback interface, too.
    Raises ConfigError if not even limits can be set.
    """
    prlimit, setpriv, bwrap = (shutil.which(name) for name in ("prlimit", "setpriv", "bwrap"))
    unshare = shutil.which("unshare") if own_network else None
    if prlimit is None:
        raise ConfigError(
            "Untrusted code cannot be run here: `prlimit`, which sets its limits, is not installed.",
            code="sandbox_unavailable",
            remedy="Use Linux with util-linux installed.",
        )
    is_root = os.geteuid() == 0
    if bwrap is not None and (setpriv is not None or not is_root):
        yield _bubblewrap(bwrap, setpriv if is_root else None, prlimit, readable)
    if is_root and setpriv is not None and (unshare is not None or not own_network):
        yield _own_user(prlimit, setpriv, python, unshare, readable)
    if allow_unsandboxed:
        yield _build_unsandboxed(prlimit, readable)


def describe_reach(kind: IsolationKind) -> str:
    """The access that untrusted code has to this machine, as a clause."""
    if kind is IsolationKind.BUBBLEWRAP:
        return "without access to this machine's files, processes and network"
    if kind is IsolationKind.OWN_USER:
        return "as users of its own: it can read the files that every user can read and use the network"
    if os.geteuid() == 0:
        return (
            "as root, with write access to this machine: it can read and change every file, end every process and "
            "use the network"
        )
    return (
        f"as the gym's user (uid {os.geteuid()}): it can read and change the files of this user, end its processes, "
        "the gym included, and use the network"
    )


def _bubblewrap(bwrap: str, setpriv: str | None, prlimit: str, readable: Sequence[Path]) -> Isolation:
    def confine(program: Sequence[str], launch: Launch) -> list[str]:
        user, limits = launch.user, launch.limits
        drop = [] if setpriv is None or user is None else build_user_command(user.uid, setpriv)
        seccomp = [] if launch.filter_fd is None else ["--seccomp", str(launch.filter_fd)]
        return [
            bwrap,
            *_namespaces(is_root=setpriv is not None),
            *_root_filesystem(limits, readable, launch.workspace),
            *seccomp,
            "--",
            *drop,
            *_build_limit_command(prlimit, limits, limits.processes),
            *program,
        ]

    return Isolation(
        IsolationKind.BUBBLEWRAP, confine, has_own_users=setpriv is not None, has_own_network=True
    )


def _namespaces(*, is_root: bool) -> list[str]:
    shared = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    # Root can create the other namespaces without a user namespace, and `setpriv` then changes the user. In a user
    # namespace created by root the program would count as root, which is exempt from the limit on processes. The
    # seccomp filter keeps the program from creating user namespaces.
    users = (
        ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        if is_root
        else ["--unshare-user", "--disable-userns"]
    )
    return [*shared, *users, "--die-with-parent", "--new-session"]


_READ_ONLY = ("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/")
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
        arguments += ["--perms", "1777", "--size", str(limits.folder_bytes), "--tmpfs", name]
    for path in readable:
        if not path.is_relative_to("/usr"):
            arguments += [*_parents(path), "--ro-bind", str(path), str(path)]
    for shown, path in workspace.mounts if workspace is not None else ():
        arguments += ["--ro-bind", str(shown), str(path)]
    if workspace is not None:
        arguments += [*_parents(workspace.place), "--bind", str(workspace.folder), str(workspace.place)]
    place = workspace.place if workspace else Path("/tmp")
    return [*arguments, *_READ_ONLY, "--chdir", str(place)]


def _parents(path: Path) -> list[str]:
    """Arguments that create the folders above `path`: bubblewrap itself creates some with mode 0700."""
    parents = [str(parent) for parent in reversed(path.parents) if parent != parent.parent]
    return [part for parent in parents for part in ("--dir", parent)]


def _own_user(
    prlimit: str,
    setpriv: str,
    python: PythonInstallation | None,
    unshare: str | None,
    readable: Sequence[Path],
) -> Isolation:
    # Only root can bring the loopback interface of a new network namespace up.
    network = [] if unshare is None else [unshare, "--net", sys.executable, "-I", "-S", loopback.__file__]

    def confine(program: Sequence[str], launch: Launch) -> list[str]:
        assert launch.user is not None
        limits = launch.limits
        drop = build_user_command(launch.user.uid, setpriv)
        command = program if python is None else python.build_open_command(program)
        return [*network, *drop, *_build_limit_command(prlimit, limits, limits.processes), *command]

    return Isolation(
        IsolationKind.OWN_USER,
        confine,
        has_own_users=True,
        has_own_network=unshare is not None,
        readable=readable,
    )


def _build_unsandboxed(prlimit: str, readable: Sequence[Path]) -> Isolation:
    def confine(program: Sequence[str], launch: Launch) -> list[str]:
        # The gym's user has other processes, which count towards the limit.
        processes = launch.limits.processes + _count_own_tasks()
        return [*_build_limit_command(prlimit, launch.limits, processes), *program]

    return Isolation(IsolationKind.UNSANDBOXED, confine, readable=readable)


def _build_limit_command(prlimit: str, limits: SandboxLimits, processes: int) -> list[str]:
    values = {
        **({"as": limits.memory_bytes} if limits.limits_address_space else {}),
        "core": 0,
        "msgqueue": 0,
        "sigpending": _PENDING_SIGNALS,
        "cpu": math.ceil(limits.wall_s) + 1,
        "fsize": limits.file_bytes,
        "nofile": limits.open_files,
        "nproc": processes,
    }
    return [prlimit, *(f"--{name}={value}:{value}" for name, value in values.items()), "--"]


def _count_own_tasks() -> int:
    """Count the processes and threads of the gym's user."""
    own = os.geteuid()
    found = psutil.process_iter(["uids", "num_threads"])
    return sum(
        process.info["num_threads"] or 1
        for process in found
        if process.info["uids"] is not None and process.info["uids"].real == own
    )
