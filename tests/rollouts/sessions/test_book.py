from __future__ import annotations

import pytest

from nemo_gym.failures import InputError
from tests.rollouts.sessions.books import book, member, settle_all, start_all

STEP = {"groups_per_step": 1, "staleness": {"bound": 1, "of": "group", "then": "drop"}}


def test_members_of_the_oldest_group_start_first() -> None:
    made = book("a", "b")
    assert made.count_ready() == 4
    assert start_all(made) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert made.count_ready() == 0


def test_a_group_is_delivered_when_all_members_are_settled() -> None:
    made = book("a")
    start_all(made)
    made.settle(0, member(1))
    assert made.deliver() is None
    made.settle(0, member(0))
    delivery = made.deliver()
    assert delivery is not None
    assert (delivery.group.key, delivery.group.cursor) == ("a", 0)
    assert made.deliver() is None


def test_a_bound_admits_so_many_groups_and_consumption_with_a_version_admits_more() -> None:
    made = book(*"abcd", **STEP)
    started = start_all(made)
    assert {number for number, _ in started} == {0, 1}
    settle_all(made, started)
    first = made.deliver()
    assert first is not None
    made.consume([first.group.cursor or 0], 0)
    assert start_all(made) == [], "what is trained on now keeps its place until the next version"
    made.set_version(1)
    assert {number for number, _ in start_all(made)} == {2}


def test_a_failed_member_is_no_zero() -> None:
    made = book("a", group_size=3, min_members=2)
    start_all(made)
    for repeat, metric in enumerate([1.0, None, 0.0]):
        made.settle(0, member(repeat, metric=metric))
    delivery = made.deliver()
    assert delivery is not None
    assert delivery.spread is not None
    assert delivery.spread.mean == 0.5
    assert len(delivery.judged.kept) == 2


def test_a_group_that_cannot_get_enough_members_is_cancelled_at_once() -> None:
    made = book("a", group_size=4, min_members=3)
    start_all(made)
    made.settle(0, member(0, metric=None))
    useless = made.settle(0, member(1, metric=None))
    assert [rollout.repeat for rollout in useless] == [2, 3]
    delivery = made.deliver()
    assert delivery is not None
    assert delivery.group.cancelled == "too_few"
    assert made.settle(0, member(2)) == [], "the answer that raced with the abort changes nothing"
    assert made.deliver() is None


def test_a_filtered_group_gives_its_place_back() -> None:
    made = book(*"abcd", useful={"min_std": 0.1}, **STEP)
    for number, repeat in start_all(made):
        made.settle(number, member(repeat, metric=1.0))
    assert made.capacity.taken == 0
    assert {number for number, _ in start_all(made)} == {2, 3}
    assert [made.deliver().group.cancelled for _ in range(2)] == ["zero_variance"] * 2  # type: ignore[union-attr]


def test_a_step_with_its_useful_groups_starts_nothing_until_the_next_version() -> None:
    made = book(*"abcd", useful={"stop_at": 1, "surplus": "cancel"})
    settle_all(made, start_all(made)[:2])
    cancelled = [made.deliver(), made.deliver(), made.deliver(), made.deliver()]
    assert [each and each.group.cancelled for each in cancelled] == [None, "surplus", "surplus", "surplus"]
    made.submit("e", 0, "e", None)
    assert made.count_ready() == 0
    made.set_version(1)
    assert made.count_ready() == 2


def test_the_ceiling_on_oversampling_is_reached() -> None:
    made = book(*"abcd", useful={"stop_at": 2, "max_oversampling": 1.5, "min_std": 0.1})
    for number, repeat in start_all(made):
        made.settle(number, member(repeat))
    assert made.step is not None
    assert made.step.is_hopeless
    assert made.step.describe() == "2.0x sampled, 0 of 2 groups useful"


def test_a_stale_group_is_a_cancellation_and_fifo_keeps_its_place() -> None:
    made = book("a", "b", order="fifo", staleness={"bound": 0, "of": "group", "then": "drop"})
    started = start_all(made)
    settle_all(made, started[2:])
    assert made.deliver() is None, "the first group comes first"
    settle_all(made, started[:2])
    made.set_version(1)
    assert [made.deliver().group.cancelled for _ in range(2)] == ["stale", "stale"]  # type: ignore[union-attr]
    assert made.counters.wasted_tokens == 40


def test_a_running_group_that_is_stale_already_ends_its_rollouts() -> None:
    made = book("a", staleness={"bound": 0, "of": "group", "then": "drop"})
    start_all(made)
    made.settle(0, member(0, oldest=0))
    assert [rollout.repeat for rollout in made.set_version(1)] == [1]


def test_consumption_is_repeatable_and_checked() -> None:
    made = book("a")
    settle_all(made, start_all(made))
    made.deliver()
    assert made.consume([0], 0) == 1
    assert made.consume([0], 0) == 0
    with pytest.raises(InputError, match="cursor 1 was not delivered"):
        made.consume([1])
    with pytest.raises(InputError, match="consumed at version 7"):
        made.consume([0], 7)


def test_what_is_not_consumed_stops_the_start_of_groups() -> None:
    made = book(*"abc", max_unconsumed_groups=1)
    settle_all(made, start_all(made)[:2])
    made.submit("d", 0, "d", None)
    assert made.count_ready() == 0
    made.deliver()
    made.consume([0])
    assert made.count_ready() > 0


def test_keys_and_rounds() -> None:
    made = book("a")
    assert not made.submit("a", 0, "digest of a", None)
    assert made.submit("a", 1, "digest of a", None)
    with pytest.raises(InputError, match="another task"):
        made.submit("a", 2, "another digest", None)
    assert made.find_known("a").round == 1
    with pytest.raises(InputError, match="'z' is submitted"):
        made.find_known("z")


def test_the_expected_version_counts_what_is_delivered_before() -> None:
    made = book(*"abcd", groups_per_step=2)
    settle_all(made, start_all(made))
    expected = [made.deliver().expected_version for _ in range(4)]  # type: ignore[union-attr]
    assert expected == [0, 0, 1, 1]
    unknown = book(*"ab")
    settle_all(unknown, start_all(unknown))
    assert [unknown.deliver().expected_version for _ in range(2)] == [0, 1]  # type: ignore[union-attr]
