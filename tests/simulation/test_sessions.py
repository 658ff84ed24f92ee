"""The laws of rollout sessions hold, and planted defects of the kinds that trainers had are found and replayed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from nemo_gym.rollouts.sessions.admission import Capacity
from nemo_gym.rollouts.sessions.book import GroupBook
from nemo_gym.rollouts.sessions.deliveries import GroupDelivery, MemberStart
from nemo_gym.rollouts.sessions.groups import CancelReason, GroupPhase, Member, TaskGroup, Versions
from nemo_gym.rollouts.sessions.options import SessionOptions
from simulation.sessions import (
    Played,
    Stamp,
    Truth,
    draw_scenario,
    measure_busy,
    play,
    stamp_truly,
)

SEEDS = range(120)


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_no_law_is_violated(first: int) -> None:
    found = [(seed, play(draw_scenario(seed)).violation) for seed in range(first, first + 40)]
    assert [each for each in found if each[1] is not None] == []


def test_a_play_is_repeated_exactly() -> None:
    assert play(draw_scenario(3)) == play(draw_scenario(3))


class LeakyBook(GroupBook):
    """The place of a filtered group is not given back."""

    def _release(self, group: TaskGroup, reason: CancelReason) -> None:
        super()._release(group, reason)
        if reason is CancelReason.ZERO_VARIANCE and self.capacity.count_free():
            self.capacity.take()


class EmittingTwice(GroupBook):
    """A cancelled group that is settled afterwards comes out again."""

    def settle(self, number: int, member: Member) -> list:  # type: ignore[type-arg]
        group = self.groups.get(number)
        if group is not None and group.phase is GroupPhase.READY and group.cancelled:
            self._out.append(group)
        return super().settle(number, member)

    def deliver(self) -> GroupDelivery | None:
        if self._out and self._out[0].phase is GroupPhase.DELIVERED:
            group = self._out.popleft()
            assert group.cursor is not None
            return self.delivered.get(group.cursor) or self.deliver()
        delivery = super().deliver()
        if delivery is not None and delivery.group.cancelled is None and self.next_cursor % 7 == 0:
            self._out.appendleft(delivery.group)
        return delivery


class NewestFirst(GroupBook):
    """Of the waiting tasks the newest starts first."""

    def draw(self) -> MemberStart | None:
        if not self._partly and self.waiting:
            self.waiting.rotate(1)
        return super().draw()


def stamp_late(truth: Truth, repeat: int) -> Member:
    """The version is read when the answer comes."""
    member = stamp_truly(truth, repeat)
    return replace(member, versions=Versions(truth.versions.newest, truth.versions.newest))


def stamp_failures_as_zeros(truth: Truth, repeat: int) -> Member:
    member = stamp_truly(truth, repeat)
    return replace(member, metric=0.0) if truth.failed else member


def find(build_book: Callable[[SessionOptions], GroupBook], stamp: Stamp) -> tuple[int, Played]:
    for seed in SEEDS:
        played = play(draw_scenario(seed), build_book, stamp)
        if played.violation is not None:
            return seed, played
    raise AssertionError("the planted defect was not found")


@pytest.mark.parametrize(
    ("build_book", "stamp", "told"),
    [
        (LeakyBook, stamp_truly, "stands still"),
        (GroupBook, stamp_late, "above the bound"),
        (GroupBook, stamp_failures_as_zeros, "a failed rollout"),
        (EmittingTwice, stamp_truly, "came out twice"),
        (NewestFirst, stamp_truly, "starves"),
    ],
)
def test_a_planted_defect_is_found_and_replayed(
    build_book: Callable[[SessionOptions], GroupBook], stamp: Stamp, told: str
) -> None:
    seed, played = find(build_book, stamp)
    assert told in str(played.violation)
    again = play(draw_scenario(seed), build_book, stamp)
    assert again == played
    assert play(draw_scenario(seed)).violation is None, "the defect is the planted one"


def test_a_place_is_not_given_back_twice() -> None:
    with pytest.raises(AssertionError):
        Capacity(1).give_back()


def test_the_policies_cost_what_the_page_says() -> None:
    closed, fifo = (
        measure_busy("closed batches", 0, steps=10),
        measure_busy("oldest first, wait", 2, steps=10),
    )
    mask, drop = (measure_busy(policy, 2, steps=10) for policy in ("ready first, mask", "ready first, drop"))
    assert closed.busy < fifo.busy < mask.busy
    assert closed.most_stale == 0
    assert fifo.most_stale <= 2
    assert drop.most_stale <= 2 < mask.most_stale
    assert drop.trained_mean < drop.sampled_mean, "dropping by age prefers short rollouts"


def test_a_session_tells_by_how_much_dropping_by_age_prefers_short_rollouts() -> None:
    true_mean = math.exp(0.5)
    for policy, bound in (("ready first, drop", 4), ("ready first, mask", 4), ("oldest first, wait", 2)):
        played = measure_busy(policy, bound, steps=60)
        true, told = 1 - played.trained_mean / true_mean, 1 - played.trained_mean / played.told_mean
        assert told == pytest.approx(true, abs=0.025)
    dropped = measure_busy("ready first, drop", 4, steps=60)
    assert dropped.trained_mean / dropped.sampled_mean > 0.94, (
        "without those that were cancelled it looks small"
    )
