"""The time that a child process had for itself: it computed, slept or waited for something, but not for a core.

A deadline in wall-clock time depends on how busy the machine is. Linux counts for each thread how long it was ready to
run without a core (`/proc/<pid>/task/<tid>/schedstat`); own time is the wall-clock time without that delay. Elsewhere
it is the wall-clock time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from nemo_gym.processes.process_tree import list_descendants

_NS = 1e9


class OwnSeconds(NamedTuple):
    """The own time of a process and its children since a start."""

    own: float
    """Seconds without those in which a thread was ready but had no core."""
    computing: float
    """CPU seconds of all threads."""
    is_runnable: bool
    """True if a thread is running or ready to run at this moment, so that it is neither blocked nor asleep."""


class OwnTime:
    """A stopwatch of the own time of the process `pid`, its threads and its children."""

    def __init__(self, pid: int, wall_clock: Callable[[], float] = time.monotonic) -> None:
        self._pid = pid
        self._wall_clock = wall_clock
        self._started = wall_clock()
        self._before = dict(self._threads())

    @property
    def wall_s(self) -> float:
        """Seconds since the start."""
        return self._wall_clock() - self._started

    def read(self) -> OwnSeconds:
        """Return the seconds since the start. The threads of a process that has ended count no more."""
        delay = computing = 0
        has_runnable = False
        for thread, (ran, waited) in self._threads():
            has_runnable = has_runnable or is_runnable(thread)
            ran_before, waited_before = self._before.get(thread, (0, 0))
            computing += ran - ran_before
            delay = max(delay, waited - waited_before)
        return OwnSeconds(max(0.0, self.wall_s - delay / _NS), computing / _NS, has_runnable)

    def _threads(self) -> Iterator[tuple[tuple[int, str], tuple[int, int]]]:
        return read_thread_times([self._pid, *list_descendants(self._pid)])


def read_thread_times(pids: Iterable[int]) -> Iterator[tuple[tuple[int, str], tuple[int, int]]]:
    """Yield each thread of processes with the nanoseconds that it ran, and those that it waited for a core."""
    for process in pids:
        with contextlib.suppress(OSError):  # the process has ended, or this is not Linux
            for thread in Path(f"/proc/{process}/task").iterdir():
                with contextlib.suppress(OSError, ValueError):
                    ran, waited, _ = (thread / "schedstat").read_text(encoding="ascii").split()
                    yield (process, thread.name), (int(ran), int(waited))


def is_runnable(thread: tuple[int, str]) -> bool:
    """Return whether a thread of a process is running or ready to run at this moment."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{thread[0]}/task/{thread[1]}/stat").read_text(
            encoding="utf-8", errors="replace"
        )
        return status.rpartition(")")[2].split()[0] == "R"
    return False
