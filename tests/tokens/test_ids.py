"""Sequences of ids: the laws of growing, comparing and naming them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.tokens.ids import IdSequence, decode_ids, encode_ids

ids = st.lists(st.integers(0, 2**32 - 1), max_size=30)
few = st.lists(st.integers(0, 2), max_size=12)


@given(ids)
def test_ids_come_back_from_their_bytes(given_ids: list[int]) -> None:
    assert decode_ids(encode_ids(given_ids)) == given_ids
    assert len(encode_ids(given_ids)) == 4 * len(given_ids)


@pytest.mark.parametrize("value", [[-1], [2**32], [1.0], ["1"], [None], None, "12", {"1": 2}])
def test_what_is_no_list_of_ids_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="token id"):
        encode_ids(value)


@given(few, few)
def test_how_much_two_sequences_share(first: list[int], second: list[int]) -> None:
    sequence, other = IdSequence(encode_ids(first)), encode_ids(second)
    shared = sequence.count_shared(other)
    assert first[:shared] == second[:shared]
    assert shared == min(len(first), len(second)) or first[shared] != second[shared]
    assert sequence.begins(other) is (second[: len(first)] == first)


@given(few, few, few)
def test_a_fingerprint_depends_on_ids_and_not_on_their_form(
    first: list[int], second: list[int], other: list[int]
) -> None:
    grown = IdSequence(encode_ids(first))
    grown.extend(encode_ids(second))
    assert grown.ids() == first + second
    assert grown.fingerprint == IdSequence(encode_ids(first + second)).fingerprint
    assert (grown.fingerprint == IdSequence(encode_ids(other)).fingerprint) is (other == first + second)


@given(few, st.integers(0, 12), st.integers(0, 12))
def test_a_part_is_what_a_list_would_give(given_ids: list[int], start: int, end: int) -> None:
    assert IdSequence(encode_ids(given_ids)).ids(start, end) == given_ids[start:end]
