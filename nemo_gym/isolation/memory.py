"""The memory of a confined program, limited by the kernel in a cgroup, which also counts or limits its CPU time.

A cgroup counts every page: of processes, of /tmp and /dev/shm, of shared memory, and of the kernel's own objects.
Where none can be made that does, the gym adds the memory up (`nemo_gym.isolation.memory_count`).

Version 1 limits the buffers of TCP and UDP on their own, and so swapped pages; its CPU time and its share
of CPUs have groups of their own.
In version 2, a group with processes cannot enable controllers for its children. A gym makes groups in the root group,
and in a group that systemd has delegated to it (`Delegate=yes`), whose processes it moves into a child.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

_REMOVAL_S = 2.0
_PROC, _COMMAND_LINE = Path("/proc/self"), Path("/proc/cmdline")
_SERVERS = "nemo_gym_servers"
"""The child of a delegated group that holds the gym's processes."""
_DELEGATED = "user.delegate"
"""systemd sets this attribute of a group that its processes may divide."""
_MOVES = 10
DELEGATION = (
    "Start the gym by `systemd-run --user --scope -p Delegate=yes COMMAND`, so that the kernel limits memory."
)
_LIMIT, _LIMIT_OF_VERSION_1 = "memory.max", "memory.limit_in_bytes"
_SOCKET_LIMIT = "memory.kmem.tcp.limit_in_bytes"
_SOCKET_SHARE = 4
"""Buffers of TCP and UDP may take this part of the limit, in addition to it, in version 1."""
_SWAP_LIMITS = {"memory.swap.max": 0, "memory.memsw.limit_in_bytes": 1}
"""Multiples of the limit: version 2 limits the swapped pages, version 1 the sum."""
_CPU_PERIOD_US = 100_000
_SHORTEST_QUOTA_US = 1000
"""The kernel refuses a smaller share of a period."""
_CPU_LIMIT, _CPU_LIMIT_OF_VERSION_1 = "cpu.max", "cpu.cfs_quota_us"
_UNCOUNTED = re.compile(r"\bcgroup\.memory=\S*\b(nosocket|nokmem)\b")
"""Options of the kernel with which groups count neither sockets nor the kernel's objects."""
_numbers = itertools.count(1)


class MemoryGroup:
    """The cgroup of one program; in version 1, two, or three with a limit of CPUs."""

    def __init__(self, folder: Path, cpu_folder: Path, quota_folder: Path | None = None) -> None:
        self._folder, self._cpu_folder = folder, cpu_folder
        self._folders = list(dict.fromkeys((folder, cpu_folder, quota_folder or folder)))
        self.processes_file = str(folder / "cgroup.procs")
        """A process that writes 0 to it enters the group whose memory is limited."""
        self.processes_files = [str(each / "cgroup.procs") for each in self._folders]
        """A process has to enter all of them."""

    def build_entry_command(self) -> list[str]:
        """Return the command that enters all of them before it executes the rest."""
        enter = 'echo 0 > "$1" && shift && ' * len(self.processes_files)
        return ["/bin/sh", "-c", f'{enter}exec "$@"', "enter", *self.processes_files]

    def is_exceeded(self) -> bool:
        """Return whether the kernel has killed a process for the limit."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (self._folder / name).read_text().splitlines():
                    key, _, count = line.partition(" ")
                    if key == "oom_kill":
                        return int(count) > 0
        return False

    def cpu_s(self) -> float | None:
        """The CPU seconds of all processes that were ever in it; None if it does not count them."""
        return _read_cpu_s(self._cpu_folder)

    def remove(self) -> None:
        """Remove the group, whose processes have been killed. Blocks until the last has ended, for two seconds."""
        give_up_at = time.monotonic() + _REMOVAL_S
        for folder in self._folders:
            while folder.exists() and time.monotonic() < give_up_at:
                with contextlib.suppress(OSError):  # a process is still ending
                    folder.rmdir()
                    break
                time.sleep(0.005)


def can_limit_memory() -> bool:
    """Return whether groups with a memory limit can be made, so that the kernel counts all memory."""
    return _parent() is not None


def lacks_cpu_count() -> bool:
    """Return whether the groups that limit memory here do not count CPU time."""
    parent = _parent()
    return parent is not None and _cpu_parent(parent) is None


def can_limit_cpus() -> bool:
    """Return whether groups with a memory limit can have a limit of CPUs, too."""
    parent = _parent()
    return parent is not None and _quota_parent(parent) is not None


def make_memory_group(limit_bytes: int, cpus: float | None = None) -> MemoryGroup | None:
    """Create a group with a limit of memory and, unless None, of CPUs (1.5 for 1.5 s of CPU time in each second).

    Returns None where this is not possible.
    """
    parent = _parent()
    quota_parent = _quota_parent(parent) if parent is not None and cpus is not None else None
    if parent is None or (cpus is not None and quota_parent is None):
        return None
    name = f"nemo_gym_{os.getpid()}_{next(_numbers)}"
    folder, cpu_folder = parent / name, (_cpu_parent(parent) or parent) / name
    quota_folder = quota_parent / name if quota_parent is not None else folder
    try:
        folder.mkdir()
        for each in (cpu_folder, quota_folder):
            each.mkdir(exist_ok=True)
        _set_limits(folder, limit_bytes)
        if cpus is not None:
            _limit_cpus(quota_folder, cpus)
        return MemoryGroup(folder, cpu_folder, quota_folder)
    except OSError:
        for each in (folder, cpu_folder, quota_folder):
            with contextlib.suppress(OSError):
                each.rmdir()
        return None


def _limit_cpus(folder: Path, cpus: float) -> None:
    quota = max(_SHORTEST_QUOTA_US, round(cpus * _CPU_PERIOD_US))
    if (folder / _CPU_LIMIT).exists():
        (folder / _CPU_LIMIT).write_text(f"{quota} {_CPU_PERIOD_US}")
    else:
        (folder / _CPU_LIMIT_OF_VERSION_1).write_text(str(quota))


def _set_limits(folder: Path, limit_bytes: int) -> None:
    """Limit the memory of a new group. Raises OSError where the kernel cannot limit all of it."""
    limit = _limit_in(folder)
    if limit is None:
        raise FileNotFoundError(errno.ENOENT, "no limit for memory", str(folder))
    limit.write_text(str(limit_bytes))
    if limit.name == _LIMIT_OF_VERSION_1:
        (folder / _SOCKET_LIMIT).write_text(str(limit_bytes // _SOCKET_SHARE))
    for name, part in _SWAP_LIMITS.items():
        if (folder / name).exists():
            (folder / name).write_text(str(limit_bytes * part))


def _limit_in(folder: Path) -> Path | None:
    """The file that limits the memory of a group; None if there is none, or one that leaves sockets out."""
    if (folder / _LIMIT).exists():
        return folder / _LIMIT
    has_both = all((folder / name).exists() for name in (_LIMIT_OF_VERSION_1, _SOCKET_LIMIT))
    return folder / _LIMIT_OF_VERSION_1 if has_both else None


def _read_cpu_s(folder: Path) -> float | None:
    """The CPU seconds that a group counts; None if it counts none."""
    with contextlib.suppress(OSError):
        return int((folder / "cpuacct.usage").read_text()) / 1e9
    with contextlib.suppress(OSError):
        for line in (folder / "cpu.stat").read_text().splitlines():
            key, _, microseconds = line.partition(" ")
            if key == "usage_usec":
                return int(microseconds) / 1e6
    return None


@cache
def _parent() -> Path | None:
    """The group of this process, if groups that limit all memory can be made in it."""
    with contextlib.suppress(OSError):
        if _UNCOUNTED.search(_COMMAND_LINE.read_text()):
            return None
    return _find_parent(_own_groups("memory"), lambda probe: _limit_in(probe) is not None)


@cache
def _cpu_parent(parent: Path) -> Path | None:
    """The group in which groups count CPU time, by preference `parent`; None if there is none."""
    return _find_parent((parent, *_own_groups("cpuacct")), lambda probe: _read_cpu_s(probe) is not None)


@cache
def _quota_parent(parent: Path) -> Path | None:
    """The group in which groups limit CPUs, by preference `parent`; None if there is none."""
    limits = (_CPU_LIMIT, _CPU_LIMIT_OF_VERSION_1)
    return _find_parent(
        (parent, *_own_groups("cpu")), lambda probe: any((probe / name).exists() for name in limits)
    )


def _find_parent(groups: Iterable[Path], is_able: Callable[[Path], bool]) -> Path | None:
    """Return the first of this process's groups in which an able group can be made."""
    for own in groups:
        folder = _divide(own)
        probe = folder / f"nemo_gym_{os.getpid()}_probe"
        try:
            probe.mkdir()
        except OSError:
            continue
        is_usable = is_able(probe) and os.access(probe / "cgroup.procs", os.W_OK)
        with contextlib.suppress(OSError):
            probe.rmdir()
        if is_usable:
            _remove_leftovers(folder)
            return folder
    return None


def _divide(own: Path) -> Path:
    """Return the group in which groups can be made: a delegated one, if this process is in one, is divided for it."""
    if own.name == _SERVERS:
        return own.parent
    with contextlib.suppress(OSError):  # version 1, or another user's group
        there = (own / "cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{name}" for name in ("memory", "cpu") if name in there)
        if "memory" in there and os.getxattr(own, _DELEGATED) == b"1":
            (own / _SERVERS).mkdir(exist_ok=True)
            for _ in range(_MOVES):  # processes may start meanwhile
                for pid in (own / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        (own / _SERVERS / "cgroup.procs").write_text(pid)
                with contextlib.suppress(OSError):
                    (own / "cgroup.subtree_control").write_text(wanted)
                    break
    return own


def _remove_leftovers(parent: Path) -> None:
    """Remove the empty groups of gyms that were killed."""
    for folder in parent.glob("nemo_gym_*_*"):
        pid = folder.name.split("_")[2]
        if not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _own_groups(controller: str) -> Iterator[Path]:
    """The folders of this process's groups that may have a controller, by the mounts that show them."""
    try:
        groups = [line.split(":", 2) for line in (_PROC / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (_PROC / "mountinfo").read_text().splitlines()]
    except OSError:
        return
    for mount in mounts:
        separator = mount.index("-")
        kind, options = mount[separator + 1], mount[separator + 3].split(",")
        for _, controllers, path in groups:
            is_ours = controller in controllers.split(",") and controller in options
            if (kind == "cgroup" and is_ours) or (kind == "cgroup2" and not controllers):
                inside = os.path.relpath(path, mount[3])
                yield Path(os.path.normpath(Path(mount[4]) / ("." if inside.startswith("..") else inside)))
