"""Runs hold the clock of the rollouts of a process."""

from __future__ import annotations

import asyncio

from nemo_gym.clock import pause, replaced_by, rollout_time
from nemo_gym.transport.pausing import hold_clock
from tests.rollouts.doubles import run_virtually
from tests.transport.test_deadline import LoopClock


def test_the_clock_stands_still_while_any_run_holds_it_and_runs_on_after_the_last() -> None:
    async def main() -> None:
        began = rollout_time()
        hold_clock("a", 15.0)
        hold_clock("b", 15.0)
        await asyncio.sleep(5.0)
        hold_clock("a", 0.0)
        assert (rollout_time(), pause.since is None) == (began, False)
        hold_clock("b", 0.0)
        await asyncio.sleep(2.0)
        assert rollout_time() == began + 2.0
        hold_clock("never held", 0.0)

    with replaced_by(LoopClock()):
        run_virtually(main())


def test_a_run_that_was_killed_holds_the_clock_for_some_seconds_only() -> None:
    async def main() -> None:
        began = rollout_time()
        for _ in range(4):
            hold_clock("killed", 15.0)
            await asyncio.sleep(3.0)
        assert rollout_time() == began
        await asyncio.sleep(100.0)
        assert pause.since is None
        assert rollout_time() == began + 88.0

    with replaced_by(LoopClock()):
        run_virtually(main())
