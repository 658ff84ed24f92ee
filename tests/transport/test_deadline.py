"""A deadline is an instant: the seconds left decrease with the clock."""

from __future__ import annotations

import asyncio
import contextlib
from unittest.mock import patch

import pytest

from nemo_gym.clock import Sources, pause, replaced_by
from nemo_gym.transport import Deadline
from nemo_gym.transport.deadline import Timer
from tests.rollouts.doubles import run_virtually
from tests.transport.doubles import Clock


async def test_the_seconds_left_decrease_and_become_negative() -> None:
    clock = Clock()
    clock.now = 100.0
    deadline = Deadline.after(10, clock)
    assert (deadline.at, deadline.seconds_left(clock)) == (110.0, 10.0)
    await clock.sleep(7)
    assert deadline.seconds_left(clock) == 3.0
    await clock.sleep(7)
    assert deadline.seconds_left(clock) == -4.0


def test_deadlines_of_the_same_instant_are_equal() -> None:
    assert Deadline(5.0) == Deadline.after(2, lambda: 3.0)


async def test_a_timer_cancels_the_task_and_takes_the_cancellation_back() -> None:
    timer = Timer(0.0)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.get_running_loop().create_future()
    assert timer.takes_back_cancellation()
    await asyncio.sleep(0)  # the task goes on


async def test_a_timer_that_is_stopped_cancels_nothing() -> None:
    timer = Timer(0.0)
    timer.stop()
    await asyncio.sleep(0.01)
    assert not timer.takes_back_cancellation()


@pytest.mark.parametrize("has_expired", [False, True])
async def test_the_cancellation_of_another_task_is_not_taken_back(has_expired: bool) -> None:
    has_begun = asyncio.Event()
    taken_back: list[bool] = []

    async def wait() -> None:
        timer = Timer(0.0 if has_expired else 3600.0)
        has_begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            taken_back.append(timer.takes_back_cancellation())
            raise
        finally:
            timer.stop()

    task = asyncio.create_task(wait())
    await has_begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert taken_back == [False]


async def test_a_cancellation_that_became_another_error_is_taken_back() -> None:
    task = asyncio.current_task()
    assert task is not None
    timer = Timer(0.0)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.get_running_loop().create_future()
    timer.stop()
    assert task.cancelling() == 0


async def _wait(seconds: float, stops_after: float | None = None) -> str:
    """Return when a timer of `seconds` has cancelled this task, or that it was stopped before."""
    loop, timer = asyncio.get_running_loop(), Timer(seconds)
    try:
        await asyncio.sleep(1e6 if stops_after is None else stops_after)
        return f"stopped at {loop.time():.2f}"
    except asyncio.CancelledError:
        assert timer.takes_back_cancellation()
        return f"expired at {loop.time():.2f}"
    finally:
        timer.stop()


@pytest.mark.parametrize("began", [0.0, 0.7, 1.0])
def test_timers_expire_at_their_time_and_only_if_they_are_not_stopped(began: float) -> None:
    async def main() -> list[str]:
        await asyncio.sleep(began)
        waits = [(0.2, None), (0.5, 0.1), (3.1, None), (3.9, None), (3.5, 0.3), (3.5, 3.2), (100.0, 99.0)]
        return await asyncio.gather(*(_wait(*wait) for wait in waits))

    assert run_virtually(main()) == [
        f"{end} at {began + seconds:.2f}"
        for end, seconds in [
            ("expired", 0.2), ("stopped", 0.1), ("expired", 3.1), ("expired", 3.9), ("stopped", 0.3),
            ("stopped", 3.2), ("stopped", 99.0),
        ]
    ]  # fmt: skip


def test_a_loop_is_not_woken_for_timers_that_were_stopped() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        await _wait(5000.0, stops_after=10.0)
        await asyncio.sleep(2.0)
        with patch.object(loop, "call_at", wraps=loop.call_at) as scheduled:
            await asyncio.sleep(100.0)
        return scheduled.call_count

    assert run_virtually(main()) == 1, "for the sleep itself"


@pytest.mark.parametrize("seconds", [0.5, 1.5, 20.0])
def test_a_timer_does_not_count_the_pauses_of_a_run(seconds: float) -> None:
    """It expires `seconds` after its start, those of two pauses not counted, whenever they were."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(0.2, pause.begin)
        loop.call_later(1000.2, pause.end)
        loop.call_later(1000.3, pause.begin)
        loop.call_later(3000.3, pause.end)
        began = loop.time()
        timer = Timer(seconds)
        with contextlib.suppress(asyncio.CancelledError):
            await loop.create_future()
        assert timer.takes_back_cancellation()
        timer.stop()
        return loop.time() - began

    with replaced_by(LoopClock()):
        assert run_virtually(main()) == pytest.approx(seconds + 3000.0, abs=1.0)


@pytest.mark.parametrize("began_after", [-5.0, -0.1, 0.0, 0.1])
@pytest.mark.parametrize("seconds", [0.5, 20.0])
def test_a_timer_that_is_set_near_the_end_of_a_pause_counts_the_rest_of_it_alone(
    began_after: float, seconds: float
) -> None:
    """Another timer waits since before the pause, so that the timers of the loop are awake."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        earlier = Timer(5000.0)
        loop.call_later(0.2, pause.begin)
        loop.call_later(1000.2, pause.end)
        await asyncio.sleep(1000.2 + began_after)
        began, timer = loop.time(), Timer(seconds)
        with contextlib.suppress(asyncio.CancelledError):
            await loop.create_future()
        assert timer.takes_back_cancellation()
        timer.stop()
        earlier.stop()
        return loop.time() - began

    with replaced_by(LoopClock()):
        assert run_virtually(main()) == pytest.approx(seconds + max(0.0, -began_after), abs=1.0)


def test_a_deadline_stands_still_during_a_pause() -> None:
    async def main() -> None:
        deadline = Deadline.after(10.0)
        await asyncio.sleep(4.0)
        pause.begin()
        await asyncio.sleep(500.0)
        assert deadline.seconds_left() == pytest.approx(6.0)
        pause.end()
        await asyncio.sleep(5.0)
        assert deadline.seconds_left() == pytest.approx(1.0)

    with replaced_by(LoopClock()):
        run_virtually(main())


class LoopClock(Sources):
    """The clock of the running event loop."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
