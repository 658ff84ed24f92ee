"""The curriculum: pure functions, and a book whose tasks they choose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nemo_gym.rollouts.sessions.book import GroupBook
from nemo_gym.rollouts.sessions.curriculum import (
    CurriculumOptions,
    CurriculumState,
    count_pools,
    find_pool,
    observe,
    propose,
)
from nemo_gym.rollouts.sessions.groups import Member, Versions
from nemo_gym.rollouts.sessions.options import SessionOptions

KEYS = ["n", "u", "m", "s"]
OPTIONS = CurriculumOptions()


def observed(**means: float) -> CurriculumState:
    state = CurriculumState()
    for key, mean in means.items():
        state = observe(state, key, mean)
    return state


def draw_all(options: CurriculumOptions, state: CurriculumState, keys: Sequence[str]) -> list[str]:
    """Return the keys in the order in which they are proposed."""
    left, drawn = list(keys), []
    while left:
        place, state = propose(options, state, left)
        drawn.append(left.pop(place))
    return drawn


def test_the_last_group_of_a_task_decides_its_pool() -> None:
    state = observed(u=0.0, m=0.5, s=1.0)
    assert [find_pool(OPTIONS, state.means.get(key)) for key in KEYS] == [
        "new",
        "unsolved",
        "mixed",
        "solved",
    ]
    state = observe(state, "s", 0.25)
    assert find_pool(OPTIONS, state.means["s"]) == "mixed"
    assert count_pools(OPTIONS, state) == {"unsolved": 1, "mixed": 2}


def test_pools_are_drawn_by_their_weights() -> None:
    state, drawn = observed(u=0.0, m=0.5, s=1.0), Counter[str]()
    options = CurriculumOptions(weights={"new": 1, "mixed": 2, "unsolved": 1})
    for _ in range(4000):
        place, state = propose(options, state, KEYS)
        drawn[KEYS[place]] += 1
    assert drawn["s"] == 0, "the pool has no weight, and others have tasks"
    assert drawn["m"] == pytest.approx(2000, rel=0.1)
    assert drawn["n"] == pytest.approx(drawn["u"], rel=0.2)


def test_without_another_task_one_of_a_pool_without_a_weight_is_taken() -> None:
    options = CurriculumOptions(weights={"mixed": 1})
    assert draw_all(options, observed(m=0.5), ["a", "m", "b"]) == ["m", "a", "b"]


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 1)), max_size=12),
    st.integers(0, 5),
    st.integers(0, 99),
)
def test_every_task_is_drawn_once_and_a_restored_state_goes_on_as_it_would_have(
    means: list[tuple[str, float]], after: int, seed: int
) -> None:
    options, state = CurriculumOptions(seed=seed), CurriculumState()
    for key, mean in means:
        state = observe(state, key, mean)
    left = list("abcdefgh")
    assert sorted(draw_all(options, state, left)) == left
    for _ in range(after):
        place, state = propose(options, state, left)
        left.pop(place)
    restored = CurriculumState.from_json(state.to_json())
    assert restored == state
    assert draw_all(options, restored, left) == draw_all(options, state, left)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"unsolved_at": 1.0}, "is not below solved_at"),
        ({"weights": {"new": 0}}, "one of them is above 0"),
        ({"weights": {"mixed": -1, "new": 1}}, "0 or more"),
        ({"weights": {"hard": 1}}, "'new', 'unsolved', 'mixed' or 'solved'"),
    ],
)
def test_a_wrong_curriculum_is_refused_with_its_reason(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CurriculumOptions(**given)


def test_a_book_admits_the_tasks_that_the_curriculum_proposes() -> None:
    """Solved tasks of the first round wait in the second until no others do."""
    weights = {"new": 1.0, "mixed": 1.0, "unsolved": 1.0}
    options = SessionOptions.model_validate(
        {"group_size": 2, "curriculum": {"weights": weights}, "max_unconsumed_groups": 64}
    )
    book = GroupBook(options)
    order: list[tuple[str, int]] = []
    for round in (0, 1):
        for key in KEYS:
            book.submit(key, round, key, None)
        while (start := book.draw()) is not None:
            group, repeat = start
            order.append((group.key, group.round))
            rewards = {"n": (0.0, 1.0), "u": (0.0, 0.0), "m": (1.0, 0.0), "s": (1.0, 1.0)}[group.key]
            book.settle(group.number, Member(repeat, Versions(0, 0), rewards[repeat]))
    assert [key for key, round in order if round == 0] == [key for key in KEYS for _ in range(2)]
    assert order[-2:] == [("s", 1)] * 2
    assert count_pools(OPTIONS, book.curriculum) == {"mixed": 2, "unsolved": 1, "solved": 1}
