"""The memory of a confined program, limited by the kernel in a cgroup.

A cgroup counts every page: of processes, of /tmp and /dev/shm, of shared memory, and of the kernel's own objects.
Where none can be made, the gym adds the memory up (`nemo_gym.isolation.memory_count`).

In version 2, a group with processes cannot enable controllers for its children. A gym makes groups in the root group,
and in a group that systemd has delegated to it (`Delegate=yes`), whose processes it moves into a child.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_REMOVAL_S = 2.0
_PROC = Path("/proc/self")
_SERVERS = "nemo_gym_servers"
"""The child of a delegated group that holds the gym's processes."""
_DELEGATED = "user.delegate"
"""systemd sets this attribute of a group that its processes may divide."""
_MOVES = 10
DELEGATION = (
    "Start the gym by `systemd-run --user --scope -p Delegate=yes COMMAND`, so that the kernel limits memory."
)
_numbers = itertools.count(1)


class MemoryGroup:
    """A cgroup of one program."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.processes_file = str(folder / "cgroup.procs")
        """A process that writes 0 to it enters the group."""

    def is_exceeded(self) -> bool:
        """Return whether the kernel has killed a process for the limit."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (self._folder / name).read_text().splitlines():
                    key, _, count = line.partition(" ")
                    if key == "oom_kill":
                        return int(count) > 0
        return False

    def remove(self) -> None:
        """Remove the group, whose processes have been killed. Blocks until the last has ended, for two seconds."""
        give_up_at = time.monotonic() + _REMOVAL_S
        while self._folder.exists() and time.monotonic() < give_up_at:
            with contextlib.suppress(OSError):  # a process is still ending
                self._folder.rmdir()
                return
            time.sleep(0.005)


def can_limit_memory() -> bool:
    """Return whether groups with a memory limit can be made, so that the kernel counts all memory."""
    return _parent() is not None


def make_memory_group(limit_bytes: int) -> MemoryGroup | None:
    """Create a group with a limit; None where this is not possible."""
    parent = _parent()
    if parent is None:
        return None
    folder = parent / f"nemo_gym_{os.getpid()}_{next(_numbers)}"
    try:
        folder.mkdir()
        for name in ("memory.limit_in_bytes", "memory.max"):
            if (folder / name).exists():
                (folder / name).write_text(str(limit_bytes))
                _deny_swap(folder)
                return MemoryGroup(folder)
    except OSError:
        pass
    with contextlib.suppress(OSError):
        folder.rmdir()
    return None


def _deny_swap(folder: Path) -> None:
    """Keep pages beyond the limit of a group of version 2 from the swap space."""
    swap = folder / "memory.swap.max"
    if swap.exists():
        swap.write_text("0")


@cache
def _parent() -> Path | None:
    """The group of this process, if groups with a memory limit can be made in it."""
    for own in _own_groups():
        folder = _divide(own)
        probe = folder / f"nemo_gym_{os.getpid()}_probe"
        try:
            probe.mkdir()
        except OSError:
            continue
        has_limit = any((probe / name).exists() for name in ("memory.limit_in_bytes", "memory.max"))
        is_writable = os.access(probe / "cgroup.procs", os.W_OK)
        with contextlib.suppress(OSError):
            probe.rmdir()
        if has_limit and is_writable:
            _remove_leftovers(folder)
            return folder
    return None


def _divide(own: Path) -> Path:
    """Return the group in which groups can be made: a delegated one, if this process is in one, is divided for it."""
    if own.name == _SERVERS:
        return own.parent
    with contextlib.suppress(OSError):  # version 1, or another user's group
        has_memory = "memory" in (own / "cgroup.controllers").read_text().split()
        if has_memory and os.getxattr(own, _DELEGATED) == b"1":
            (own / _SERVERS).mkdir(exist_ok=True)
            for _ in range(_MOVES):  # processes may start meanwhile
                for pid in (own / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        (own / _SERVERS / "cgroup.procs").write_text(pid)
                with contextlib.suppress(OSError):
                    (own / "cgroup.subtree_control").write_text("+memory")
                    break
    return own


def _remove_leftovers(parent: Path) -> None:
    """Remove the empty groups of gyms that were killed."""
    for folder in parent.glob("nemo_gym_*_*"):
        pid = folder.name.split("_")[2]
        if not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _own_groups() -> Iterator[Path]:
    """The folders of this process's groups that have a memory controller, by the mounts that show them."""
    try:
        groups = [line.split(":", 2) for line in (_PROC / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (_PROC / "mountinfo").read_text().splitlines()]
    except OSError:
        return
    for mount in mounts:
        separator = mount.index("-")
        kind, options = mount[separator + 1], mount[separator + 3].split(",")
        for _, controllers, path in groups:
            is_ours = "memory" in controllers.split(",") and "memory" in options
            if (kind == "cgroup" and is_ours) or (kind == "cgroup2" and not controllers):
                inside = os.path.relpath(path, mount[3])
                yield Path(os.path.normpath(Path(mount[4]) / ("." if inside.startswith("..") else inside)))
