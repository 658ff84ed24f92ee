from __future__ import annotations

import pytest

from nemo_gym.rollouts.sessions.groups import CancelReason, GroupPhase, TaskGroup, measure_spread
from tests.rollouts.sessions.books import member


def test_a_phase_is_not_left_backwards() -> None:
    group = TaskGroup(0, "a", 0, 2)
    group.become(GroupPhase.RUNNING)
    with pytest.raises(AssertionError):
        group.become(GroupPhase.WAITING)


def test_a_group_can_be_cancelled_until_it_is_out() -> None:
    assert TaskGroup(0, "a", 0, 2, phase=GroupPhase.READY).is_cancellable
    assert not TaskGroup(0, "a", 0, 2, phase=GroupPhase.DELIVERED).is_cancellable
    assert not TaskGroup(0, "a", 0, 2, cancelled=CancelReason.STALE).is_cancellable


def test_the_spread_is_of_scored_members() -> None:
    assert measure_spread([member(0, metric=None)]) is None
    spread = measure_spread([member(0, metric=1.0), member(1, metric=None), member(2, metric=3.0)])
    assert spread == (2.0, 1.0)


def test_a_group_tells_what_it_has_cost() -> None:
    group = TaskGroup(0, "a", 0, 2, settled=[member(0, tokens=7), member(1, metric=None, tokens=3)])
    assert group.spent == {"tokens": 10, "seconds": 2.0}
    assert [each.repeat for each in group.usable] == [0]
