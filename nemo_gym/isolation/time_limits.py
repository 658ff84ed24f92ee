"""Time limits of confined programs: seconds of the clock, or CPU seconds, which do not depend on other programs.

A program under a CPU limit has three kinds of time. It computes (CPU time), it could compute but other programs have
the CPU (run-queue delay, from /proc/PID/schedstat), or it is blocked or asleep. Only the first and the last count:

    timed_out   it computed for `cpu_s`
    blocked     it did not finish within `2 cpu_s + 1` seconds that were its own, computing or asleep
    starved     it was runnable, but other programs had the CPU for five times as long: the machine is at fault
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from nemo_gym.processes.own_time import times_of_threads
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
    """The times of all processes of a program since its start, in seconds."""

    cpu_s: float
    """CPU time, that of ended and reaped processes included."""
    starved_s: float
    """Time that its living threads spent in run queues."""


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
        return min(max(self._cpu_s / 10, 0.05), 0.5)

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


def times_of(pids: list[int]) -> ProcessTimes:
    """The times of processes that exist, and of the children that they have reaped."""
    cpu_s = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):  # ended meanwhile
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            cpu_s += sum(map(int, fields[11:15])) / _TICKS_PER_S
    starved_ns = sum(waited for _, (_, waited) in times_of_threads(pids))
    return ProcessTimes(cpu_s, starved_ns / 1e9)


_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
