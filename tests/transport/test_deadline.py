"""A deadline is an instant: the seconds left decrease with the clock."""

from __future__ import annotations

from nemo_gym.transport import Deadline
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
