from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.verify.state import Difference, DifferenceKind, StateRules, differences, is_same_state

STATE = {"events": [{"id": 1, "title": "Lunch"}, {"id": 2, "title": "Dinner"}], "owner": "Ada"}


def changed(**changes: Any) -> dict[str, Any]:
    return {**STATE, **changes}


@pytest.mark.parametrize(
    ("actual", "said"),
    [
        (STATE, []),
        (changed(owner="Bob"), ['$.owner: expected "Ada", found "Bob"']),
        (changed(owner=None), ['$.owner: expected "Ada", found null']),
        ({"events": STATE["events"]}, ['$.owner: expected "Ada", found nothing']),
        (changed(extra=[1]), ["$.extra: unexpected [1]"]),
        (
            changed(events=[STATE["events"][0]]),
            ['$.events[1]: expected {"id": 2, "title": "Dinner"}, found nothing'],
        ),
        (
            changed(events=[{"id": 1, "title": "Brunch"}, {"id": "2", "title": "Dinner"}]),
            ['$.events[0].title: expected "Lunch", found "Brunch"', '$.events[1].id: expected 2, found "2"'],
        ),
        (
            changed(events="none"),
            ['$.events: expected [{"id": 1, "title": "Lunch"}, {"id": 2, "title": "Dinner"}], found "none"'],
        ),
        (STATE["events"], [f"$: expected {json.dumps(STATE)}, found {json.dumps(STATE['events'])}"]),
    ],
)
def test_every_difference_is_listed(actual: Any, said: list[str]) -> None:
    assert [str(difference) for difference in differences(STATE, actual)] == said
    assert is_same_state(STATE, actual) is not bool(said)


def test_a_difference_has_structured_fields() -> None:
    (found,) = differences({"a": [1]}, {"a": [1, 2]})
    assert found == Difference("$.a[1]", DifferenceKind.UNEXPECTED, actual=2)


def test_generated_values_can_be_ignored() -> None:
    rules = StateRules(ignored=["$.events[*].id", "$.log"])
    actual = {"events": [{"id": 7, "title": "Lunch"}, {"title": "Dinner"}], "owner": "Ada", "log": ["x"]}
    assert differences(STATE, actual, rules) == []
    assert differences({"events": [{"id": 1}], "log": 0}, {"events": [{}]}, rules) == []
    assert differences({"events": {"id": 1}}, {"events": {"id": 2}}, rules) != []


def test_arrays_without_order_are_compared_as_multisets() -> None:
    rules = StateRules(unordered=["$.tags", "$.events"], ignored=["$.events[*].id"])
    expected = {"tags": ["a", "b", "a"], "events": [{"id": 1, "t": "x"}, {"id": 2, "t": "y"}]}
    actual = {"tags": ["b", "a", "a"], "events": [{"id": 9, "t": "y"}, {"id": 8, "t": "x"}]}
    assert differences(expected, actual, rules) == []
    assert [str(found) for found in differences(expected, {**actual, "tags": ["a", "b", "c"]}, rules)] == [
        '$.tags[2]: expected "a", found nothing',
        '$.tags[2]: unexpected "c"',
    ]
    assert not is_same_state(expected, actual)


def test_numbers_may_differ_by_the_tolerance() -> None:
    assert is_same_state({"x": 0.3}, {"x": 0.1 + 0.2}, StateRules(tolerance=1e-9))
    assert not is_same_state({"x": 0.3}, {"x": 0.1 + 0.2})
    assert not is_same_state({"x": 1}, {"x": True}, StateRules(tolerance=1))


def test_long_values_are_truncated_and_other_types_shown() -> None:
    (found,) = differences("a" * 1000, {1, 2})
    assert len(str(found)) < 200
    assert "{1, 2}" in str(found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=1), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(VALUES, VALUES)
def test_difference_is_symmetric(left: Any, right: Any) -> None:
    assert (
        bool(differences(left, right)) == bool(differences(right, left)) == (not is_same_state(left, right))
    )
    assert differences(left, left) == []
