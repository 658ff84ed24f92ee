"""A closed loop of attempts, measured in windows at steady state.

A fixed number of workers each make one attempt after the other. A window is a number of finished attempts, a multiple
of the number in flight, because attempts that begin together tend to end together. The first window begins when every
worker has finished an attempt, and the load continues after the last one: neither ramp nor tail is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import orjson
import psutil

from nemo_gym.failures import GymError
from nemo_gym.transport import Reply
from perf.measure import cpu_s, memory_mb, tell

Send: TypeAlias = Callable[[], Awaitable[Reply]]
"""Makes one attempt."""
Groups: TypeAlias = Mapping[str, Sequence[psutil.Process]]
"""Processes whose CPU and memory are reported together."""

_WARM_UP_S = 0.5
_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Windows:
    """The parameters of a measurement."""

    count: int = 3
    """Number of windows. The result is their median."""
    least_s: float = 1.0
    """Minimum seconds of a window."""
    budget_s: float = 10.0
    """No window starts after this many seconds, except the first."""


@dataclass(frozen=True, slots=True)
class Window:
    """The figures of the attempts that ended within one window."""

    attempts: int
    failed: int
    """Attempts that were not scored 1."""
    seconds: float
    latencies: list[float]
    """Seconds of each attempt, sorted."""
    cpu_s: dict[str, float]
    """By group of processes."""

    def percentile(self, share: float) -> float:
        return self.latencies[min(int(len(self.latencies) * share), len(self.latencies) - 1)]


@dataclass(frozen=True, slots=True)
class Measured:
    windows: list[Window]
    memory_mb: dict[str, float]
    """By group of processes, at the end, while the load goes on."""


class ClosedLoop:
    """Keeps `in_flight` attempts in flight."""

    def __init__(self, send: Send, in_flight: int, *, spread_s: float = 0.0) -> None:
        """`spread_s`: seconds over which the workers start, so that they are not synchronized."""
        self._send = send
        self._in_flight = in_flight
        self._spread_s = spread_s
        self._latencies: list[float] = []
        self._failed = 0
        self._finished = 0
        self._awaited = 0
        self._is_reached = asyncio.Event()
        self._has_told = False

    async def measured(self, groups: Groups, how: Windows) -> Measured:
        """Measure the windows. Failed attempts are counted; other exceptions are raised."""
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work(number)) for number in range(self._in_flight)]
            try:
                size = await self._ramp_up(how.least_s)
                began = time.perf_counter()
                windows = [await self._window(size, groups)]
                while len(windows) < how.count and time.perf_counter() - began < how.budget_s:
                    windows.append(await self._window(size, groups))
                memory = {name: memory_mb(processes) for name, processes in groups.items()}
            finally:
                for worker in workers:
                    worker.cancel()
        return Measured(windows, memory)

    async def _work(self, number: int) -> None:
        await asyncio.sleep(self._spread_s * number / self._in_flight)
        while True:
            began = time.perf_counter()
            problem = await self._attempt()
            self._latencies.append(time.perf_counter() - began)
            if problem is not None:
                self._failed += 1
                self._tell_once(problem)
            self._finished += 1
            if self._finished >= self._awaited:
                self._is_reached.set()

    async def _attempt(self) -> str | None:
        """Make one attempt. Return the problem if it was not scored 1."""
        try:
            reply = await self._send()
        except GymError as error:
            return str(error)
        is_scored = reply.ok and orjson.loads(reply.body).get("reward") == 1.0
        return None if is_scored else f"HTTP {reply.status}: {reply.body[:_QUOTED].decode(errors='replace')}"

    def _tell_once(self, problem: str) -> None:
        if not self._has_told:
            tell(f"the first failed attempt: {problem}")
        self._has_told = True

    async def _ramp_up(self, least_s: float) -> int:
        """Wait for the steady state. Return the number of attempts in a window."""
        began = time.perf_counter()
        await self._more(self._in_flight)
        while time.perf_counter() - began < _WARM_UP_S:
            await self._more(self._in_flight)
        rate = self._finished / (time.perf_counter() - began)
        return self._in_flight * max(1, round(rate * least_s / self._in_flight))

    async def _window(self, size: int, groups: Groups) -> Window:
        self._latencies, self._failed = [], 0
        before = {name: cpu_s(processes) for name, processes in groups.items()}
        began = time.perf_counter()
        await self._more(size)
        seconds = time.perf_counter() - began
        spent = {name: cpu_s(processes) - before[name] for name, processes in groups.items()}
        return Window(len(self._latencies), self._failed, seconds, sorted(self._latencies), spent)

    async def _more(self, attempts: int) -> None:
        self._awaited = self._finished + attempts
        self._is_reached.clear()
        await self._is_reached.wait()
