"""The window: bounds, attempts, deadlines, stopping."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from nemo_gym.failures import AgentError, ConfigError
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult, Failed, Scored
from nemo_gym.rollouts.run.collector import Collector, RunLimits
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.stopping import Stop, StopRules
from tests.rollouts.doubles import (
    Agents,
    Behaviour,
    MemoryOutput,
    always,
    failure,
    identities,
    planned,
    run_virtually,
    scored,
)


def collector_of(agents: Agents, output: MemoryOutput, counters: RunCounters, **options: Any) -> Collector:
    return Collector(agents, output, counters, rng=random.Random(1), **options)


def collect(
    agents: Agents,
    count: int,
    limits: RunLimits | None = None,
    *,
    rules: StopRules | None = None,
) -> tuple[MemoryOutput, RunCounters, Stop]:
    """Collect `count` tasks in virtual time."""
    output, counters, stop = MemoryOutput(), RunCounters(count), Stop()
    collector = collector_of(agents, output, counters, limits=limits or RunLimits(), rules=rules, stop=stop)
    run_virtually(collector.run(planned(task) for task in range(count)))
    return output, counters, stop


def test_every_planned_rollout_gets_its_row() -> None:
    output, counters, stop = collect(Agents(), 10)
    assert sorted(identities(output.rows)) == [(task, 0) for task in range(10)]
    assert (counters.completed, counters.failed, counters.in_flight) == (10, 0, 0)
    assert not stop.requested


def test_the_window_bounds_what_is_in_flight_and_what_is_drawn_from_the_plan() -> None:
    drawn = 0

    def plan() -> Iterator[PlannedAttempt]:
        nonlocal drawn
        for task in range(100):
            drawn += 1
            yield planned(task)

    ahead: list[int] = []

    class Watching(Agents):
        async def attempt(self, task: PlannedAttempt) -> AttemptResult:
            result = await super().attempt(task)
            ahead.append(drawn - counters.scored)
            return result

    agents, counters = Watching(seconds=1.0), RunCounters(100)
    run_virtually(collector_of(agents, MemoryOutput(), counters, limits=RunLimits(in_parallel=7)).run(plan()))
    assert agents.most_in_flight == 7
    assert max(ahead) <= 7


def test_a_slow_rollout_does_not_hold_up_the_others() -> None:
    async def slow(task: PlannedAttempt) -> AttemptResult:
        await asyncio.sleep(1000.0)
        return scored(task)

    output, _, _ = collect(Agents({0: slow}, seconds=1.0), 50, RunLimits(in_parallel=2))
    assert identities(output.rows)[-1] == (0, 0)


def test_a_transient_failure_is_attempted_again_and_noted() -> None:
    async def fail_once(task: PlannedAttempt) -> AttemptResult:
        return failure(retryable=True) if task.attempt_index == 0 else scored(task)

    output, counters, _ = collect(Agents({1: fail_once}), 3)
    assert len(output.rows) == 3
    assert [row["_ng_attempt_index"] for row in output.rows if row["_ng_task_index"] == 1] == [1]
    assert [(row["_ng_attempt_index"], row["_ng_failure_terminal"]) for row in output.failures] == [
        (0, False)
    ]
    assert (counters.failed, counters.retries) == (0, 1)


def test_attempts_end_at_their_limit_and_only_the_last_is_terminal() -> None:
    agents = Agents({0: always(failure(retryable=True))})
    output, counters, _ = collect(agents, 1, RunLimits(max_attempts=3))
    noted = [(row["_ng_attempt_index"], row["_ng_failure_terminal"]) for row in output.failures]
    assert noted == [(0, False), (1, False), (2, True)]
    assert (counters.failed, counters.failures) == (1, {"engine:engine_down": 1})


def test_a_lasting_failure_is_attempted_once() -> None:
    agents = Agents({0: always(failure(retryable=False))})
    output, _, _ = collect(agents, 1)
    assert agents.attempts.total() == 1
    assert output.failures[0]["_ng_failure_terminal"] is True


def test_a_rollout_that_takes_too_long_is_a_failure_of_the_deadline_and_not_tried_again() -> None:
    async def hang(task: PlannedAttempt) -> AttemptResult:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    agents = Agents({0: hang})
    output, counters, _ = collect(agents, 2, RunLimits(rollout_timeout_s=1800.0))
    assert counters.failures == {"deadline:rollout_timeout": 1}
    assert agents.attempts[planned(0).identity] == 1
    assert "1800 s" in output.failures[0]["_ng_failure"]["message"]
    assert agents.in_flight == 0


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (AgentError("its own fault", code="oops"), "agent:oops"),
        (ValueError("a bug"), "agent:ValueError"),
        (TimeoutError("of another call"), "agent:TimeoutError"),
    ],
)
def test_whatever_an_attempt_raises_is_a_failure_of_that_rollout_alone(
    error: Exception, failure_class: str
) -> None:
    async def break_down(task: PlannedAttempt) -> AttemptResult:
        raise error

    output, counters, stop = collect(Agents({1: break_down}), 3)
    assert counters.failures == {failure_class: 1}
    assert len(output.rows) == 2
    assert not stop.requested


def test_a_row_that_a_judge_failed_on_is_a_failure_without_a_reward() -> None:
    async def misjudge(task: PlannedAttempt) -> AttemptResult:
        return scored(task, 0.0, _ng_failure_class="judge_failed", _ng_failure_judge_error="HTTP 500")

    output, counters, _ = collect(Agents({0: misjudge}), 1, RunLimits(max_attempts=2))
    assert output.rows == []
    assert counters.mean_rewards == {}
    assert len(output.failures) == 2
    assert "reward" not in output.failures[-1]
    assert output.failures[-1]["_ng_failure_class"] == "judge_failed"
    assert output.failures[-1]["response"] == {"output": []}


def test_an_answer_that_is_not_to_be_kept_leaves_no_trace() -> None:
    async def vanish(task: PlannedAttempt) -> AttemptResult:
        return AgentAnswer({"_ng_no_persist": True, "_ng_failure_class": "killed"})

    output, counters, _ = collect(Agents({0: vanish}), 1)
    assert (output.rows, output.failures) == ([], [])
    assert (counters.discarded, counters.failed) == (1, 0)


def test_settled_rollouts_are_reported_once_each() -> None:
    told: list[tuple[int, bool]] = []

    def listen(attempt: PlannedAttempt, result: Scored | Failed) -> None:
        told.append((attempt.identity.task, isinstance(result, Scored)))

    agents = Agents({1: always(failure(retryable=True))})
    run_virtually(
        collector_of(agents, MemoryOutput(), RunCounters(2), on_settled=listen).run([planned(0), planned(1)])
    )
    assert sorted(told) == [(0, True), (1, False)]


def test_the_same_failure_again_and_again_stops_the_run_with_its_cause() -> None:
    everywhere: dict[int, Behaviour] = {task: always(failure("refused")) for task in range(5, 1000)}
    output, counters, stop = collect(
        Agents(everywhere), 1000, RunLimits(in_parallel=4), rules=StopRules(1000, identical_failures=20)
    )
    assert stop.reason is not None
    assert stop.reason.code == "systemic_failure"
    assert stop.reason.message.startswith("the engine says refused")
    assert stop.reason.remedy == "Start it."
    assert 20 <= counters.failed <= 24
    assert len(output.rows) == 5


def test_a_success_in_between_keeps_the_run_going() -> None:
    behaviours: dict[int, Behaviour] = {task: always(failure()) for task in range(200) if task % 15}
    _, counters, stop = collect(
        Agents(behaviours), 200, RunLimits(in_parallel=1), rules=StopRules(200, identical_failures=20)
    )
    assert not stop.requested
    assert counters.settled == 200


def test_failures_of_several_kinds_are_not_systemic() -> None:
    behaviours: dict[int, Behaviour] = {task: always(failure(f"kind_{task % 3}")) for task in range(100)}
    _, counters, stop = collect(
        Agents(behaviours), 100, RunLimits(in_parallel=1), rules=StopRules(100, identical_failures=20)
    )
    assert not stop.requested
    assert counters.failed == 100


def test_the_budget_of_failures_stops_the_run_as_soon_as_it_is_overdrawn() -> None:
    behaviours: dict[int, Behaviour] = {task: always(failure(f"kind_{task}")) for task in range(100)}
    _, counters, stop = collect(
        Agents(behaviours), 100, RunLimits(in_parallel=1), rules=StopRules(100, max_failed_fraction=0.1)
    )
    assert stop.reason is not None
    assert stop.reason.code == "too_many_failures"
    assert counters.failed == 11


async def interrupt_after(stop: Stop, *seconds: float) -> None:
    for pause in seconds:
        await asyncio.sleep(pause)
        stop.interrupt()


def collect_interrupted(
    agents: Agents, limits: RunLimits, *seconds: float
) -> tuple[MemoryOutput, RunCounters, float]:
    """Collect 100 tasks, interrupting after each of `seconds`; also how long it took."""
    output, counters, stop = MemoryOutput(), RunCounters(100), Stop()

    async def run() -> float:
        collector = collector_of(agents, output, counters, limits=limits, stop=stop)
        await asyncio.gather(
            collector.run(planned(task) for task in range(100)), interrupt_after(stop, *seconds)
        )
        return asyncio.get_running_loop().time()

    return output, counters, run_virtually(run())


def test_an_interrupt_lets_what_is_in_flight_finish_and_starts_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agents = Agents(seconds=3.0)
    output, counters, took = collect_interrupted(agents, RunLimits(in_parallel=10, drain_s=5.0), 4.0)
    assert len(output.rows) == 20
    assert agents.attempts.total() == 20
    assert counters.cancelled == 0
    assert took == pytest.approx(6.0)
    assert counters.is_stopping
    assert (
        "the 10 rollouts in flight have 5 s to finish; an interrupt (Ctrl-C) cancels them now" in caplog.text
    )


def test_after_the_drain_the_rest_is_cancelled_and_nothing_is_made_up_for_it() -> None:
    agents = Agents(seconds=100.0)
    output, counters, took = collect_interrupted(agents, RunLimits(in_parallel=10, drain_s=5.0), 1.0)
    assert (output.rows, output.failures) == ([], [])
    assert (counters.cancelled, counters.in_flight, agents.in_flight) == (10, 0, 0)
    assert took == pytest.approx(6.0)


def test_a_second_interrupt_cuts_the_drain_short() -> None:
    agents = Agents(seconds=100.0)
    _, counters, took = collect_interrupted(agents, RunLimits(in_parallel=10, drain_s=60.0), 1.0, 0.5)
    assert counters.cancelled == 10
    assert took == pytest.approx(1.5)


def test_a_rollout_waiting_for_its_next_attempt_is_not_started_again_after_an_interrupt() -> None:
    behaviours: dict[int, Behaviour] = {task: always(failure(retryable=True)) for task in range(100)}
    agents = Agents(behaviours)
    limits = RunLimits(in_parallel=5, first_wait_s=1000.0, longest_wait_s=1000.0, drain_s=5000.0)
    _, counters, _ = collect_interrupted(agents, limits, 0.001)
    assert set(agents.attempts.values()) == {1}
    assert (counters.cancelled, counters.failed) == (5, 0)


def test_a_disk_that_refuses_a_row_ends_the_run() -> None:
    class FullDisk(MemoryOutput):
        def add_row(self, line: bytes) -> None:
            if len(self.rows) == 3:
                raise ConfigError("no space left", code="output_unwritable")
            super().add_row(line)

    agents, output = Agents(seconds=1.0), FullDisk()
    with pytest.raises(ConfigError, match="no space left"):
        run_virtually(
            collector_of(agents, output, RunCounters(100), limits=RunLimits(in_parallel=2)).run(
                planned(task) for task in range(100)
            )
        )
    assert len(output.rows) == 3
    assert agents.attempts.total() <= 6
    assert agents.in_flight == 0


def test_cancelling_the_collection_leaves_nothing_running() -> None:
    agents = Agents(seconds=100.0)

    async def run() -> None:
        collector = collector_of(agents, MemoryOutput(), RunCounters(100), limits=RunLimits(in_parallel=10))
        task = asyncio.create_task(collector.run(planned(number) for number in range(100)))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert agents.in_flight == 0

    run_virtually(run())
