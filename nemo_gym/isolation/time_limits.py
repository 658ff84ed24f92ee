"""Time limits of confined programs: seconds of the clock, or CPU seconds, which do not depend on other programs.

A program under a CPU limit has three kinds of time. It computes (CPU time), it could compute but other programs have
the CPU (run-queue delay, from /proc/PID/schedstat), or it is blocked or asleep. Only the first and the last count:

    timed_out   it computed for `cpu_s`
    blocked     it did not finish within `2 cpu_s + 1` seconds that were its own, computing or asleep
    starved     it was runnable, but other programs had the CPU for five times as long: the machine is at fault

A program must not be able to starve itself. It cannot lower its priority (`nemo_gym.isolation.system_calls`; its /proc
is read-only). Of threads that sleep, and wait in the queue for each other, only the longest delay counts.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from nemo_gym.processes.own_time import is_runnable, read_thread_times
from nemo_gym.processes.workers import available_cores


class Ending(StrEnum):
    """The way in which a program ended."""

    EXITED = "exited"
    """It exited, or a signal from elsewhere ended it."""
    TIMED_OUT = "timed_out"
    BLOCKED = "blocked"
    STARVED = "starved"
    OUTPUT_EXCEEDED = "output_exceeded"
    """It printed more than it may, or its folder outgrew its limit."""
    MEMORY_EXCEEDED = "memory_exceeded"
    """All its processes together exceeded the limit. A single process gets an allocation error instead."""
    CROWDED_OUT = "crowded_out"
    """The machine has hardly any memory left; it is not known that the program is the cause."""
    STOPPED = "stopped"
    """The gym stopped it."""


class ProcessTimes(NamedTuple):
    """The times of all processes of a program, in seconds."""

    cpu_s: float
    """CPU time since its start."""
    starved_s: float
    """Time in which the program had no CPU although it could compute."""


class TimeLimit(Protocol):
    """Decides whether a program may go on."""

    def next_check_s(self, waited_s: float) -> float:
        """Seconds until the next check of a program that has been waited for this long."""

    def check(self, waited_s: float, *, has_answered: bool) -> Ending | None:
        """The reason to end a program that has been waited for this long; None to go on, or to accept its answer."""

    def settle(self, waited_s: float) -> None:
        """Count a wait that is over."""


class WallLimit:
    """Seconds of the clock, for each wait."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def next_check_s(self, waited_s: float) -> float:
        return max(self._seconds - waited_s, 0.0)

    def check(self, waited_s: float, *, has_answered: bool) -> Ending | None:
        return Ending.TIMED_OUT if waited_s >= self._seconds and not has_answered else None

    def settle(self, waited_s: float) -> None:
        pass


class CpuLimit:
    """CPU seconds, for all waits together. `times` measures the program; times before the limit do not count."""

    def __init__(self, cpu_s: float, times: Callable[[], ProcessTimes]) -> None:
        self._cpu_s, self._times = cpu_s, times
        self._wall_s = 2 * cpu_s + 1
        self._patience_s = 5 * self._wall_s
        self._begin = times()
        self._waited_s = 0.0

    def next_check_s(self, waited_s: float) -> float:
        # A program that knew the moment could be ready to run just then.
        return min(max(self._cpu_s / 10, 0.05), 0.5) * random.uniform(0.5, 1.5)

    def check(self, waited_s: float, *, has_answered: bool) -> Ending | None:
        waited_s += self._waited_s
        if waited_s * available_cores() < self._cpu_s:
            return None  # it cannot have used its CPU time, and measuring costs more than most waits
        now = self._times()
        if now.cpu_s - self._begin.cpu_s >= self._cpu_s:
            return Ending.TIMED_OUT
        if has_answered:
            return None
        starved_s = now.starved_s - self._begin.starved_s
        if waited_s - starved_s >= self._wall_s:
            return Ending.BLOCKED
        return Ending.STARVED if waited_s >= self._patience_s else None

    def settle(self, waited_s: float) -> None:
        self._waited_s += waited_s


class ProgramTimes:
    """Measures the times of a program at each look.

    `pids` lists its processes. `cpu_s` is the CPU time that the kernel counts for all of them (`MemoryGroup.cpu_s`). If
    it is None, times of processes are added up; one without a waiting parent counts until the last look at it.
    """

    def __init__(
        self,
        pids: Callable[[], list[int]],
        cpu_s: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pids, self._cpu_s, self._clock = pids, cpu_s, clock
        self._looked_at = clock()
        self._delays: dict[tuple[int, str], int] = {}
        self._starved_s = 0.0
        self._own: dict[tuple[int, bytes], int] = {}
        self._reaped = self._ticks = 0

    def read(self) -> ProcessTimes:
        """Look at the program."""
        pids = self._pids()
        self._add_starved_s(pids)
        cpu_s = self._cpu_s()
        return ProcessTimes(self._add_cpu_s(pids) if cpu_s is None else cpu_s, self._starved_s)

    def _add_starved_s(self, pids: list[int]) -> None:
        now, delays = self._clock(), {}
        longest = total = 0
        for thread, (_, delay) in read_thread_times(pids):
            delays[thread] = delay
            grown = max(0, delay - self._delays.get(thread, 0))
            longest, total = max(longest, grown), total + grown
        # Several threads can have kept each other waiting, or slept; if one can run now, the program as a whole could.
        starved_ns = total if total > longest and any(map(is_runnable, delays)) else longest
        self._starved_s += min(starved_ns / 1e9, now - self._looked_at)
        self._delays, self._looked_at = delays, now

    def _add_cpu_s(self, pids: list[int]) -> float:
        """Add up the CPU time of living processes, of reaped ones, and of those that were seen alive."""
        own, reaped = dict[tuple[int, bytes], int](), 0
        for pid in pids:
            with contextlib.suppress(OSError):  # ended meanwhile
                fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
                own[pid, fields[_START_TIME]] = sum(map(int, fields[11:13]))
                reaped += sum(map(int, fields[13:15]))
        ended = sum(ticks for process, ticks in self._own.items() if process not in own)
        self._ticks += sum(ticks - self._own.get(process, 0) for process, ticks in own.items())
        self._ticks += max(0, reaped - self._reaped - ended)
        self._own, self._reaped = own, reaped
        return self._ticks / _TICKS_PER_S


_START_TIME = 19
"""The field of `stat`, after the name, that tells a process from an earlier one with its number."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
