"""Finding and killing the descendants of a process. Linux only: it reads /proc."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

__all__ = ["kill", "kill_group", "list_descendants"]


def list_descendants(pid: int) -> Iterator[int]:
    """Yield the descendants of `pid`, parents first; none if `pid` has ended or /proc lacks the list."""
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
            yield from list_descendants(child)


def kill(pid: int) -> None:
    """Kill one process, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def kill_group(leader_pid: int) -> None:
    """Kill every process of a process group, if it exists."""
    with contextlib.suppress(
        ProcessLookupError, PermissionError
    ):  # macOS raises EPERM for a group of zombies
        os.killpg(leader_pid, signal.SIGKILL)
