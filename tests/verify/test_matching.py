import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.verify.matching import (
    is_same_sequence,
    is_same_set,
    is_same_text,
    normalize,
    overlap,
)


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ("Paris", " paris. ", True),
        ("New  York", "new york", True),
        ("ﬁne", "FINE", True),
        ("straße", "STRASSE", True),
        ("Paris", "Paris, France", False),
        ("", "", False),
        ("", "x", False),
    ],
)
def test_texts_are_compared_without_case_width_and_punctuation(left: str, right: str, is_same: bool) -> None:
    assert is_same_text(left, right) is is_same


@given(st.text())
def test_normalization_is_idempotent(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once


def test_sequences_keep_order_and_length() -> None:
    assert is_same_sequence(["A", "b"], ["a", "B."])
    assert not is_same_sequence(["a", "b"], ["b", "a"])
    assert not is_same_sequence(["a"], ["a", "a"])


def test_sets_ignore_order_and_repetitions() -> None:
    assert is_same_set(["a", "b"], ["B", "A", "a"])
    assert not is_same_set(["a", "b"], ["a"])


def test_overlap_counts_shared_members() -> None:
    found = overlap(["a", "b", "c", "d"], ["A", "b", "x"])
    assert (found.precision, found.recall) == (2 / 3, 2 / 4)
    assert not found.is_exact


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_overlap_is_symmetric_and_exact_only_for_the_same_members(left: list[str], right: list[str]) -> None:
    forth, back = overlap(left, right), overlap(right, left)
    assert (forth.precision, forth.recall) == (back.recall, back.precision)
    assert forth.is_exact == (sorted(left) == sorted(right))
