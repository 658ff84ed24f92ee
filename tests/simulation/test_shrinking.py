from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.shrinking import fewest


def test_nothing_is_kept_where_nothing_is_needed() -> None:
    assert fewest(8, lambda numbers: True) == ()


def test_everything_is_kept_where_everything_is_needed() -> None:
    assert fewest(5, lambda numbers: len(numbers) == 5) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_one_that_does_it_alone_is_found(count: int) -> None:
    for culprit in range(count):
        assert fewest(count, {culprit}.issubset) == (culprit,)


def test_one_that_does_it_alone_is_found_although_others_hide_it() -> None:
    """Faults may cancel each other out: 3 does it alone, or with all, and with few others it doesn't."""
    assert fewest(8, lambda numbers: 3 in numbers and len(numbers) in (1, 8)) == (3,)


@given(st.sets(st.integers(0, 9), min_size=1))
def test_exactly_the_culprits_are_kept_where_all_are_needed_and_others_are_harmless(
    culprits: set[int],
) -> None:
    assert set(fewest(10, culprits.issubset)) == culprits


@given(st.lists(st.frozensets(st.integers(0, 7), min_size=1), min_size=1, max_size=4), st.data())
def test_the_result_satisfies_the_predicate_and_is_minimal(
    sets: list[frozenset[int]], data: st.DataObject
) -> None:
    """The predicate holds if one of some sets is complete, and some other numbers prevent it."""
    spoilers = data.draw(st.frozensets(st.integers(0, 7)))
    everything = frozenset(range(8))

    def does_it(numbers: Sequence[int]) -> bool:
        there = frozenset(numbers)
        return there == everything or (any(one <= there for one in sets) and not spoilers <= there)

    kept = fewest(8, does_it)
    assert does_it(kept)
    assert list(kept) == sorted(kept)
    for number in kept:
        assert not does_it([other for other in kept if other != number])
