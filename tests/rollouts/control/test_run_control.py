"""Requests to a collection in virtual time: nothing is lost, and nothing happens twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.rollouts.control.verbs import ControlVerb
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run._window import AutoWindow
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.stopping import StopRules
from tests.rollouts.control.controlled import Controlled, build_controlled
from tests.rollouts.doubles import Agents, always, failure, identities, planned, run_virtually, scored

Drive = Callable[[Controlled], Awaitable[None]]


def collect(run: Controlled, drive: Drive, count: int) -> None:
    """Collect `count` tasks while `drive` makes its requests."""

    async def both() -> None:
        collecting = asyncio.create_task(run.collector.run(planned(task) for task in range(count)))
        await drive(run)
        await collecting

    run_virtually(both())


def test_nothing_starts_during_a_pause_and_everything_is_made_after_it() -> None:
    agents = Agents(seconds=1.0)

    async def pause(run: Controlled) -> None:
        await asyncio.sleep(2.5)
        assert (await run.ask(ControlVerb.PAUSE))["phase"] == "paused"
        await asyncio.sleep(1.0)
        made = agents.attempts.total()
        await asyncio.sleep(3600.0)
        assert agents.attempts.total() == made == 12
        assert run.counters.is_paused
        await run.ask(ControlVerb.RESUME)

    run = build_controlled(agents, 20)
    collect(run, pause, 20)
    assert sorted(identities(run.output.rows)) == [(task, 0) for task in range(20)]
    assert max(agents.attempts.values()) == 1


def test_a_dry_run_changes_nothing() -> None:
    async def look(run: Controlled) -> None:
        await asyncio.sleep(0.5)
        before = run.control.read_state()
        for verb, body in (
            (ControlVerb.PAUSE, {}),
            (ControlVerb.DRAIN, {}),
            (ControlVerb.CANCEL, {"rollouts": ["0"]}),
            (ControlVerb.SET, {"max_attempts": 9}),
        ):
            assert (await run.ask(verb, dry_run=True, **body))["changes"]
        assert run.control.read_state() == before

    run = build_controlled(Agents(seconds=1.0), 8)
    collect(run, look, 8)
    assert (run.counters.completed, run.stop.requested, run.control.events) == (8, False, [])


def test_a_cancelled_rollout_has_failed_and_its_worker_goes_on() -> None:
    async def hang(task: PlannedAttempt) -> AttemptResult:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def cancel(run: Controlled) -> None:
        await asyncio.sleep(30.0)
        await run.ask(ControlVerb.CANCEL, rollouts=["1/0"])

    agents = Agents({1: hang}, seconds=10.0)
    run = build_controlled(agents, 9, limits=RunLimits(2))
    collect(run, cancel, 9)
    assert sorted(identities(run.output.rows)) == [(task, 0) for task in range(9) if task != 1]
    assert [row["_ng_failure_class"] for row in run.output.failures] == ["cancelled:cancelled_by_control"]
    assert (run.counters.failed, run.counters.cancelled, run.counters.in_flight) == (1, 0, 0)


def test_a_cancelled_rollout_does_not_count_as_an_identical_failure() -> None:
    async def hang(task: PlannedAttempt) -> AttemptResult:
        await asyncio.sleep(1e6)
        return scored(task)

    async def cancel(run: Controlled) -> None:
        for task in range(6):
            await asyncio.sleep(1.0)
            await run.ask(ControlVerb.CANCEL, rollouts=[str(task)])

    run = build_controlled(
        Agents(dict.fromkeys(range(6), hang)),
        8,
        limits=RunLimits(1),
        rules=StopRules(8, identical_failures=2),
    )
    collect(run, cancel, 8)
    assert (run.counters.failed, run.counters.completed, run.stop.requested) == (6, 2, False)


def test_failed_rollouts_are_attempted_again_with_new_attempts() -> None:
    is_up = False

    async def fail_at_first(task: PlannedAttempt) -> AttemptResult:
        return scored(task) if is_up else failure(retryable=True)

    async def requeue(run: Controlled) -> None:
        nonlocal is_up
        await asyncio.sleep(230.0)
        is_up = True
        answer = await run.ask(ControlVerb.REQUEUE, failure_class="engine:engine_down")
        assert answer["changes"] == ("2 failed rollouts are attempted again: 0/0, 1/0",)
        assert dict(run.counters.failures) == {"engine:other": 1}

    agents = Agents({0: fail_at_first, 1: fail_at_first, 2: always(failure("other"))}, seconds=100.0)
    run = build_controlled(agents, 10, limits=RunLimits(4, max_attempts=2))
    collect(run, requeue, 10)
    assert sorted(identities(run.output.rows)) == [(task, 0) for task in range(10) if task != 2]
    attempts = {row["_ng_task_index"]: row["_ng_attempt_index"] for row in run.output.rows}
    assert (attempts[0], attempts[1]) == (2, 2), "attempts keep counting, so their sessions differ"
    assert dict(run.counters.failures) == {"engine:other": 1}
    assert [group.count for group in run.counters.failure_groups.rank_groups()] == [1]


def test_a_requeue_when_the_plan_is_empty_starts_new_workers() -> None:
    async def fail_once(task: PlannedAttempt) -> AttemptResult:
        return scored(task) if task.attempt_index else failure()

    async def requeue(run: Controlled) -> None:
        await asyncio.sleep(5.0)
        await run.ask(ControlVerb.REQUEUE)

    async def slow(task: PlannedAttempt) -> AttemptResult:
        await asyncio.sleep(100.0)
        return scored(task)

    run = build_controlled(Agents({0: fail_once, 1: slow}), 2)
    collect(run, requeue, 2)
    assert sorted(identities(run.output.rows)) == [(0, 0), (1, 0)]


def test_concurrency_below_the_rollouts_in_flight_lets_them_finish() -> None:
    agents = Agents(seconds=10.0)

    async def retune(run: Controlled) -> None:
        await asyncio.sleep(5.0)
        await run.ask(ControlVerb.SET, num_samples_in_parallel=1)
        await asyncio.sleep(10.0)
        assert agents.in_flight == 1
        await run.ask(ControlVerb.SET, num_samples_in_parallel=6)
        await asyncio.sleep(1.0)
        assert agents.in_flight == 6

    run = build_controlled(agents, 40)
    collect(run, retune, 40)
    assert (run.counters.completed, run.counters.cancelled) == (40, 0)
    assert agents.most_in_flight == 6


def test_the_search_for_the_window_ends_with_a_number_and_can_be_asked_for() -> None:
    async def retune(run: Controlled) -> None:
        await asyncio.sleep(1.0)
        await run.ask(ControlVerb.SET, num_samples_in_parallel="auto")
        assert isinstance(run.counters.auto, AutoWindow)
        await run.ask(ControlVerb.SET, num_samples_in_parallel=2)
        assert run.counters.auto is None

    run = build_controlled(Agents(seconds=1.0), 12)
    collect(run, retune, 12)
    assert run.counters.completed == 12


def test_attempts_and_deadlines_are_those_at_the_start_of_an_attempt() -> None:
    async def hang(task: PlannedAttempt) -> AttemptResult:
        await asyncio.sleep(50.0)
        return scored(task)

    async def retune(run: Controlled) -> None:
        await asyncio.sleep(10.0)
        await run.ask(ControlVerb.SET, rollout_timeout_s=5.0)

    run = build_controlled(Agents(dict.fromkeys(range(2), hang)), 2, limits=RunLimits(1))
    collect(run, retune, 2)
    assert identities(run.output.rows) == [(0, 0)]
    assert "within 5 s" in run.output.failures[0]["_ng_failure"]["message"]


def test_a_drain_lets_rollouts_in_flight_finish_however_long_they_take() -> None:
    agents = Agents(seconds=1000.0)

    async def drain(run: Controlled) -> None:
        await asyncio.sleep(1.0)
        assert (await run.ask(ControlVerb.DRAIN))["phase"] == "draining"
        with pytest.raises(InputError, match="draining"):
            await run.ask(ControlVerb.PAUSE)

    run = build_controlled(agents, 40)
    collect(run, drain, 40)
    assert (run.counters.completed, run.counters.cancelled) == (4, 0)
    assert run.stop.reason is not None
    assert run.stop.reason.code == "drained"


@pytest.mark.parametrize("end", ["drain", "interrupt"])
def test_a_paused_run_can_be_ended(end: str) -> None:
    async def pause_and_end(run: Controlled) -> None:
        await asyncio.sleep(1.0)
        await run.ask(ControlVerb.PAUSE)
        await asyncio.sleep(100.0)
        if end == "drain":
            await run.ask(ControlVerb.DRAIN)
        else:
            run.stop.interrupt()
            assert run.control.describe()["phase"] == "draining"

    run = build_controlled(Agents(seconds=10.0), 40)
    collect(run, pause_and_end, 40)
    assert (run.counters.completed, run.counters.in_flight) == (4, 0)


def test_failures_during_a_pause_are_no_outage() -> None:
    is_up = True

    async def depend(task: PlannedAttempt) -> AttemptResult:
        await asyncio.sleep(10.0)
        return scored(task) if is_up else failure(retryable=True)

    async def redeploy(run: Controlled) -> None:
        nonlocal is_up
        await asyncio.sleep(25.0)
        await run.ask(ControlVerb.PAUSE)
        is_up = False
        await asyncio.sleep(500.0)
        is_up = True
        await run.ask(ControlVerb.RESUME)

    run = build_controlled(
        Agents(dict.fromkeys(range(12), depend)),
        12,
        limits=RunLimits(4, max_attempts=1),
        rules=StopRules(12, identical_failures=2),
    )
    collect(run, redeploy, 12)
    assert (run.counters.completed, run.counters.failed) == (12, 0)
    assert run.counters.retries == 4, "the rollouts in flight are attempted again, beyond their limit"


def test_a_run_that_has_ended_refuses_every_verb() -> None:
    run = build_controlled(Agents(), 2)

    async def do_nothing(_: Controlled) -> None:
        return

    collect(run, do_nothing, 2)
    run.control.end()
    for verb in ControlVerb:
        bodies: dict[ControlVerb, dict[str, Any]] = {
            ControlVerb.SET: {"max_attempts": 1},
            ControlVerb.CANCEL: {"rollouts": ["0"]},
        }
        with pytest.raises(InputError, match="has ended"):
            run_virtually(run.ask(verb, **bodies.get(verb, {})))
