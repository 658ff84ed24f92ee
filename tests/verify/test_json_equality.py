from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.verify.json_equality import is_same_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


class Everything(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1.0),
        (10**30, 10**30),
        ([1, [2]], (1, (2.0,))),
        ({"a": 1, "b": None}, {"b": None, "a": 1}),
        ("", ""),
        (True, True),
        (float("inf"), float("inf")),
    ],
)
def test_equal_values(expected: Any, actual: Any) -> None:
    assert is_same_json(expected, actual)
    assert is_same_json(actual, expected)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, True),
        (0, False),
        (0, None),
        ("1", 1),
        ([1], 1),
        ([], {}),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": 1}, {"b": 1}),
        (0.3, 0.1 + 0.2),
        (float("nan"), float("nan")),
        ({1}, {1}),
        ("x", Everything("y")),
        (10**400, 1e308),
    ],
)
def test_different_values(expected: Any, actual: Any) -> None:
    assert not is_same_json(expected, actual)
    assert not is_same_json(actual, expected)


@pytest.mark.parametrize(
    ("expected", "actual", "is_same"),
    [
        (10, 10.000001, False),
        (1_000_000, 1_000_000.5, False),
        (1_000_000, 1_000_000.0, True),
        (10**18, float(10**18 + 128), False),
        (0, 1e-9, False),
        (2**70 + 1, float(2**70), False),
        ([{"a": 5}], [{"a": 5.000001}], False),
        (1_000_000.0, 1_000_001, False),
        (1_000_000.0, 1_000_000, True),
        (1e23, 10**23, True),
        (1e6, 10**400, False),
        (2.9999999, 3, True),
        (1_000_000.0, 1_000_000.5, True),
    ],
)
def test_an_integer_is_met_exactly(expected: Any, actual: Any, is_same: bool) -> None:
    assert is_same_json(expected, actual, tolerance=1e-6) is is_same


def test_the_tolerance_does_not_apply_to_two_integers() -> None:
    assert is_same_json({"a": [0.3]}, {"a": [0.1 + 0.2]}, tolerance=1e-9)
    assert is_same_json(1_000_000.5, 1_000_000.6, tolerance=1e-6)
    assert not is_same_json(1_000_000, 1_000_001, tolerance=1e-3)
    assert not is_same_json(1.0, 1.1, tolerance=1e-3)


@settings(max_examples=50)
@given(JSON)
def test_every_value_equals_itself(value: Any) -> None:
    assert is_same_json(value, value)


@settings(max_examples=50)
@given(JSON, JSON)
def test_equality_is_symmetric(left: Any, right: Any) -> None:
    assert is_same_json(left, right) == is_same_json(right, left)
