from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.rollouts.sessions.groups import Member
from nemo_gym.rollouts.sessions.options import StalenessOptions
from nemo_gym.rollouts.sessions.staleness import find_floor, judge_staleness
from simulation.sessions import WAYS
from tests.rollouts.sessions.books import member

MEMBERS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 3)).map(lambda each: (each[0], each[0] + each[1])),
    min_size=1,
    max_size=6,
).map(lambda each: [member(n, oldest=oldest, newest=newest) for n, (oldest, newest) in enumerate(each)])


@given(MEMBERS, st.sampled_from(WAYS), st.integers(0, 4), st.integers(0, 9))
def test_nothing_below_the_floor_is_trained_on(
    members: list[Member], way: tuple[str, str], bound: int, version: int
) -> None:
    options = StalenessOptions.model_validate({"bound": bound, "of": way[0], "then": way[1]})
    judged = judge_staleness(options, members, find_floor(options, version))
    assert sorted(each.repeat for each in (*judged.kept, *judged.dropped)) == list(range(len(members)))
    if judged.is_stale:
        return
    for each in judged.kept:
        if each.repeat not in judged.withheld:
            assert max(each.versions.oldest, judged.mask_below or 0) >= version - bound


@pytest.mark.parametrize(
    ("way", "kept", "dropped", "withheld", "mask_below", "is_stale"),
    [
        ({"of": "token", "then": "mask"}, 2, 0, (), 2, False),
        ({"of": "rollout", "then": "drop"}, 1, 1, (), None, False),
        ({"of": "rollout", "then": "withhold"}, 2, 0, (0,), None, False),
        ({"of": "group", "then": "drop"}, 0, 2, (), None, True),
    ],
)
def test_each_way(
    way: dict[str, str], kept: int, dropped: int, withheld: object, mask_below: object, is_stale: bool
) -> None:
    options = StalenessOptions.model_validate({"bound": 1, **way})
    judged = judge_staleness(options, [member(0, oldest=1, newest=2), member(1, oldest=3)], 2)
    assert (len(judged.kept), len(judged.dropped)) == (kept, dropped)
    assert (judged.withheld, judged.mask_below, judged.is_stale) == (withheld, mask_below, is_stale)


def test_without_a_bound_everything_is_fresh() -> None:
    options = StalenessOptions()
    assert find_floor(options, 9) is None
    assert judge_staleness(options, [member()], None).mask_below is None
