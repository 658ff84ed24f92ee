"""A patch turns one JSON value into another, and an empty one means that they are equal."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.sources.atif.patches import apply_patch, make_patch

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_a_patch_gives_the_wanted_value(before: Any, wanted: Any) -> None:
    patch = make_patch(before, wanted)
    found = apply_patch(before, orjson.loads(orjson.dumps(patch)))
    assert orjson.dumps(found, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        wanted, option=orjson.OPT_SORT_KEYS
    )


def test_equal_values_need_none_and_one_is_not_true() -> None:
    assert make_patch({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}) is None
    assert make_patch([1], [True]) == {"places": {"0": {"value": True}}}
    assert make_patch({"a": 1, "b": 2}, {"a": 1}) == {"keys": {}, "without": ["b"]}
