"""The processes that a process started, and their end. Linux only: it reads /proc."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

_PAGE_BYTES = resource.getpagesize()
_SWEEPS = 20


def tree_of(pid: int) -> Iterator[int]:
    """The processes that descend from `pid`, nearest first. Nothing where the kernel doesn't tell, or `pid` ended."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        threads = list(tasks.iterdir())
    except OSError:  # ended
        return
    for thread in threads:
        try:
            children = [int(child) for child in (thread / "children").read_text().split()]
        except OSError:  # ended meanwhile
            continue
        for child in children:
            yield child
            yield from tree_of(child)


def resident_bytes(pid: int) -> int:
    """The memory that a process holds; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):  # ended meanwhile
        return 0


def kill(pid: int) -> None:
    """Kill one process, unless it is gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def kill_all_of_user(user: int) -> None:
    """Kill every process of a user that was drawn for one program, wherever in the tree it hides."""
    import psutil  # heavy for the processes that only need the rest of this module

    for _ in range(_SWEEPS):
        found = [
            process
            for process in psutil.process_iter(["uids", "status"])
            if process.info["uids"] is not None
            and process.info["uids"].real == user
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ]
        if not found:
            return
        for process in found:
            kill(process.pid)
