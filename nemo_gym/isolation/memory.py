"""The memory of a confined program: limited by the kernel in a cgroup, or counted where no cgroup can be made.

A cgroup counts every page: of processes, of /tmp and /dev/shm, and of shared memory. Without one, the gym adds up the
resident memory of all processes and the shared mappings, whose pages need not be resident in any process; files in
/tmp and /dev/shm have a bound of their own, and other memory without a mapping cannot be made
(`nemo_gym.isolation.system_calls`).

In version 2, a group with processes cannot enable controllers for its children, so that a gym makes groups only in the
root group; elsewhere its memory is counted.
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
    for folder in _own_groups():
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
