"""Causes and effects of an early end of a run."""

from __future__ import annotations

import asyncio
import os
import signal

from nemo_gym.rollouts.run.stopping import Stop, StopReason, StopRules, stop_on_signals
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
