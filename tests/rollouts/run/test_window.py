"""The search for the window, with engines modelled as queues, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nemo_gym.failures import Boundary, Failure
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run._window import AutoWindow, Measured, Search, build_window, compute_saturating
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.collector import Collector, RunLimits
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.stopping import StopRules
from tests.rollouts.doubles import MemoryOutput, planned, run_virtually, scored

Serve = Callable[[PlannedAttempt], Awaitable[AttemptResult]]


class Queue:
    """An engine that works at so many rollouts at once and lets the others wait."""

    def __init__(self, capacity: int, seconds: Callable[[], float]) -> None:
        self._room = asyncio.Semaphore(capacity)
        self._seconds = seconds

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        async with self._room:
            await asyncio.sleep(self._seconds())
        return scored(task)


class Batch:
    """An engine that gets slower with all that is in flight, as one that decodes in batches."""

    def __init__(self, seconds: float, half_speed_at: int) -> None:
        self._seconds = seconds
        self._half_speed_at = half_speed_at
        self._in_flight = 0

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        self._in_flight += 1
        try:
            await asyncio.sleep(self._seconds * (1 + self._in_flight / self._half_speed_at))
        finally:
            self._in_flight -= 1
        return scored(task)


class Refuser:
    """An engine that turns away what it has no room for."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._in_flight = 0
        self.refused = 0

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        if self._in_flight >= self._capacity:
            self.refused += 1
            await asyncio.sleep(0.01)
            return Failure(Boundary.ENGINE, "rate_limited", "too many requests", retryable=True)
        self._in_flight += 1
        try:
            await asyncio.sleep(1.0)
        finally:
            self._in_flight -= 1
        return scored(task)


def run(make_engine: Callable[[], Any], rollouts: int, **options: Any) -> AutoWindow:
    """The window at the end of a run."""

    async def collect() -> AutoWindow:
        window = AutoWindow(min(8192, rollouts), **options)
        counters = RunCounters(rollouts, auto=window)
        collector = Collector(
            make_engine(),
            MemoryOutput(),
            counters,
            limits=RunLimits("auto", max_attempts=50, first_wait_s=0.1),
            rules=StopRules(rollouts, identical_failures=0),
            window=window,
            rng=random.Random(3),
        )
        await collector.run(planned(number) for number in range(rollouts))
        assert counters.scored == rollouts
        return window

    return run_virtually(collect())


@pytest.mark.parametrize("capacity", [34, 35, 75, 100, 150, 333])
def test_the_window_settles_where_more_rollouts_would_only_wait(capacity: int) -> None:
    window = run(lambda: Queue(capacity, lambda: 2.0), 30 * capacity)
    assert window.search is not Search.CLIMBING
    # The run may end while a window is tried that is a quarter larger. The order of rollouts that end at the same
    # moment moves the size.
    most = 1.25 * 1.3 if window.search is Search.PROBING else 1.3
    assert 0.9 * capacity <= window.size <= most * capacity


@pytest.mark.parametrize("seed", range(4))
def test_it_does_so_where_no_rollout_takes_as_long_as_another(seed: int) -> None:
    rng = random.Random(seed)
    window = run(lambda: Queue(150, lambda: rng.expovariate(0.5)), 6000)
    assert 0.8 * 150 <= window.size <= 2.0 * 150


def test_an_engine_that_only_gets_slower_is_used_to_the_point_where_more_does_not_pay() -> None:
    window = run(lambda: Batch(1.0, 64), 8000)
    rate, best = window.size / (1 + window.size / 64), 64.0
    assert 0.6 * best <= rate <= 0.9 * best
    assert window.size <= 512


def test_refusals_narrow_the_window_and_cost_little() -> None:
    engines: list[Refuser] = []

    def make() -> Refuser:
        engines.append(Refuser(100))
        return engines[0]

    window = run(make, 8000)
    assert 0.6 * 100 <= window.size <= 1.1 * 100
    assert engines[0].refused <= 0.1 * 8000


def test_a_run_of_few_rollouts_keeps_the_window_that_it_starts_with() -> None:
    window = run(lambda: Queue(1000, lambda: 1.0), 50)
    assert (window.size, window.search, window.measured) == (32, Search.CLIMBING, [])
    assert "the search was not finished" in window.describe()


def test_the_widest_window_is_not_passed() -> None:
    window = run(lambda: Queue(1000, lambda: 1.0), 2000, start=16)
    assert window.size <= 1100
    assert [size for size, _ in window.measured[:3]] == [16, 32, 64]


def test_an_engine_that_becomes_faster_is_noticed() -> None:
    class Growing(Queue):
        def __init__(self) -> None:
            super().__init__(50, lambda: 1.0)
            asyncio.get_running_loop().call_later(60.0, self._grow)

        def _grow(self) -> None:
            for _ in range(50):
                self._room.release()

    assert run(Growing, 20_000).size >= 85


def test_one_refusal_a_turnover_counts() -> None:
    window = AutoWindow(start=100)
    for _ in range(10):
        window.note_refused()
    assert window.size == 70
    for _ in range(100):
        window.note_scored(1.0)
    window.note_refused()
    assert window.size == 49


def test_the_window_is_the_best_rate_at_the_latency_that_was_had_before_rollouts_queued() -> None:
    climbed = [Measured(32, 32.0), Measured(64, 64.0), Measured(128, 100.0), Measured(256, 99.0)]
    assert compute_saturating(climbed) == 100
    assert compute_saturating([Measured(32, 10.0), Measured(64, 10.1)]) == 32


def test_an_upper_bound_holds_for_fixed_and_searched_windows() -> None:
    assert build_window(64, 1000, most=8).size == 8
    assert build_window(4, 1000, most=8).size == 4
    assert build_window("auto", 1000, most=8).size == 8
    assert build_window(64, 1000).size == 64
