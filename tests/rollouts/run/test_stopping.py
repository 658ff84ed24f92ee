"""Causes and effects of an early end of a run."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from nemo_gym.failures import CancelledFailure
from nemo_gym.rollouts.run.stopping import (
    Stop,
    StopReason,
    StopRules,
    ToolStreaks,
    run_unless_stopped,
    stop_on_signals,
)
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind
from tests.metrics.test_tool_calls import BOOM, GONE, INVALID, row_of
from tests.rollouts.doubles import failure


async def test_the_first_signal_drains_and_the_second_cuts() -> None:
    stop = Stop()
    with stop_on_signals(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.draining.wait(), 5)
        assert not stop.cancelling.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(stop.cancelling.wait(), 5)
    assert stop.reason is not None
    assert stop.reason.code == "interrupted"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_what_comes_before_a_run_ends_with_its_stop() -> None:
    stop, is_cancelled = Stop(), asyncio.Event()

    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()
        return "never"

    async def be_quick() -> str:
        return "done"

    assert await run_unless_stopped(be_quick(), stop) == "done"
    asyncio.get_running_loop().call_soon(stop.interrupt)
    with pytest.raises(CancelledFailure, match="before its first rollout") as stopped:
        await run_unless_stopped(wait(), stop)
    assert stopped.value.failure.code == "interrupted"
    assert is_cancelled.is_set()


async def test_the_first_reason_stands() -> None:
    stop = Stop()
    stop.drain(StopReason("systemic_failure", "first"))
    stop.drain(StopReason("too_many_failures", "second"))
    assert stop.reason == StopReason("systemic_failure", "first")
    assert not stop.cancelling.is_set()


def test_a_rule_that_is_off_never_stops() -> None:
    rules = StopRules(10, identical_failures=0)
    assert [rules.note_failure(failure()) for _ in range(100)] == [None] * 100


def test_no_failure_at_all_may_be_allowed() -> None:
    rules = StopRules(10, max_failed_fraction=0.0)
    reason = rules.note_failure(failure())
    assert reason is not None
    assert "1 of 10 rollouts failed" in reason.message


# --- Tools that fail by the environment -------------------------------------------------------------------------------


BANG = FailedCall("guess", ToolErrorKind.RAISED, "KeyError: 'code'", "app.py:50")
MISMATCH = FailedCall("guess", ToolErrorKind.MISMATCH, "digits: Field required", "app.py:48")


def stops_at(*rows: dict[str, Any], longest: int = 4) -> int | None:
    """The number of the row, from 1, at which a run stops."""
    streaks = ToolStreaks(longest)
    return next((number for number, row in enumerate(rows, 1) if streaks.add(row) is not None), None)


@pytest.mark.parametrize("failed", [BOOM, MISMATCH])
def test_calls_that_all_fail_by_one_cause_stop_the_run(failed: FailedCall) -> None:
    assert stops_at(*[row_of(failed)] * 10) == 4
    assert stops_at(*[row_of(failed, failed)] * 10) == 2
    assert stops_at(*[row_of()] * 3, row_of(failed), *[row_of("look", failed)] * 9) == 7


@pytest.mark.parametrize(
    "rows",
    [
        [row_of(BOOM), row_of(BOOM), row_of("guess")] * 5,
        [row_of(BOOM, "guess")] * 20,
        [row_of(BOOM), row_of(BANG)] * 20,
        [row_of(INVALID)] * 50,
        [row_of(GONE)] * 50,
        [row_of(*[BOOM] * 30)],
        [row_of("guess")] * 50,
        [],
    ],
    ids=["a success between", "a success beside", "two causes", "the model's fault", "no route", "one rollout",
         "no failure", "no row"],
)  # fmt: skip
def test_other_runs_go_on(rows: list[dict[str, Any]]) -> None:
    assert stops_at(*rows) is None


def test_calls_that_the_model_got_wrong_say_nothing_about_the_tool() -> None:
    assert stops_at(row_of(BOOM), row_of(INVALID), row_of(BOOM, INVALID), row_of(BOOM), row_of(BOOM)) == 5


def test_tools_are_counted_apart() -> None:
    other = FailedCall("look", ToolErrorKind.RAISED, "IndexError: x", "app.py:9")
    assert stops_at(*[row_of(BOOM), row_of(other), row_of("peek")] * 10) == 10


def test_0_switches_the_rule_off() -> None:
    assert stops_at(*[row_of(BOOM)] * 50, longest=0) is None


def test_the_reason_has_cause_place_and_remedy_and_other_failures_count_apart() -> None:
    rules = StopRules(100, identical_failures=3)
    assert rules.note_failure(failure()) is None
    assert [rules.note_scored(row_of(BOOM)) for _ in range(2)] == [None, None]
    assert rules.note_failure(failure()) is None
    reason = rules.note_scored(row_of(BOOM))
    assert reason is not None
    assert reason.code == "systemic_failure"
    assert reason.message == "3 consecutive calls of `guess` failed: ValueError: boom (app.py:48)"
    assert reason.remedy is not None
    assert "+retry_tool_errors=true" in reason.remedy
