"""The time after which no rollout starts."""

from __future__ import annotations

from nemo_gym.rollouts.run.dispatch_budget import DispatchBudget, DispatchLatencyTracker
from tests.rollouts.doubles import Agents, planned


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_starts_when_the_budget_is_spent() -> None:
    clock = Clock()
    budget = DispatchBudget(60, clock=clock)
    starts = budget.limit_starts(planned(task) for task in range(3))
    assert next(starts).identity.task == 0
    clock.now += 60
    assert next(starts).identity.task == 1
    assert not budget.is_spent
    clock.now += 1
    assert list(starts) == []
    assert budget.is_spent
    assert "60 s of +dispatch_budget_s" in budget.describe()


def test_a_given_margin_is_kept_free() -> None:
    clock = Clock()
    budget = DispatchBudget(60, 20, clock=clock)
    starts = budget.limit_starts(planned(task) for task in range(3))
    clock.now += 40
    assert next(starts).identity.task == 0
    clock.now += 1
    assert list(starts) == []


async def test_the_margin_is_the_time_of_three_quarters_of_the_rollouts_once_five_are_finished() -> None:
    clock = Clock()
    budget = DispatchBudget(100, clock=clock)

    class Slow(Agents):
        async def attempt(self, task):  # type: ignore[no-untyped-def]
            clock.now += task.identity.task
            return await super().attempt(task)

    attempter = budget.time_attempts(Slow())
    for seconds in (1, 2, 3, 4):
        await attempter.attempt(planned(seconds))
    clock.now = 195.5
    starts = budget.limit_starts(planned(task) for task in range(3))
    assert next(starts).identity.task == 0
    clock.now = 190.0
    await attempter.attempt(planned(5))  # the margin is 4 s now, and 5 s are left
    assert next(starts).identity.task == 1
    clock.now = 196.5
    assert list(starts) == []


def test_latencies_are_summarized_with_the_attempts_that_were_not_started() -> None:
    latencies = DispatchLatencyTracker()
    assert latencies.quantile(0.5) is None
    for seconds in (4.0, 1.0, 2.0, 3.0):
        latencies.record(seconds)
    latencies.record_drained()
    assert (latencies.quantile(0.0), latencies.quantile(1.0)) == (1.0, 4.0)
    assert latencies.drain_margin(None) is None
    assert latencies.drain_margin(7.0) == 7.0
    assert latencies.summary() == "4 attempts finished, p50 3.0 s, p75 4.0 s, p95 4.0 s, 1 were not started"
