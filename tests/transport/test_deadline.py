"""A deadline is an instant: the seconds left decrease with the clock."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from nemo_gym.transport import Deadline
from nemo_gym.transport.deadline import Timer
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
