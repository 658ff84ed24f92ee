from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.tree import (
    DictTree,
    Scalar,
    Tree,
    build_tree,
    dump_plain,
    find_at,
    leaves,
    merge,
    remove_at,
    render_path,
    set_at,
    split_path,
)


def tree(value: Any, source: str = "here") -> Any:
    return build_tree(value, Location(source), Problems())


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), PLAIN, max_size=3)


@given(PLAIN)
def test_a_value_survives_the_tree(value: Any) -> None:
    assert dump_plain(tree(value)) == value


@given(MAPPINGS, MAPPINGS)
def test_every_value_of_the_upper_mapping_is_kept(low: Any, high: Any) -> None:
    merged = merge(tree(low), tree(high))
    for path, leaf in leaves(tree(high)):
        if not isinstance(leaf, DictTree):
            found = find_at(merged, path)
            assert found is not None
            assert dump_plain(found) == dump_plain(leaf)


@given(MAPPINGS, MAPPINGS)
def test_a_value_of_the_lower_mapping_is_kept_or_overridden(low: Any, high: Any) -> None:
    merged = merge(tree(low, "low"), tree(high, "high"))
    for path, _ in leaves(tree(low)):
        above = [
            found for depth in range(len(path) + 1) if (found := find_at(merged, path[:depth])) is not None
        ]
        assert len(above) == len(path) + 1 or any(each.overridden for each in above)


@given(MAPPINGS)
def test_merging_a_mapping_into_itself_changes_nothing(value: Any) -> None:
    assert dump_plain(merge(tree(value), tree(value))) == value


def test_mappings_merge_and_everything_else_is_replaced() -> None:
    merged = merge(tree({"a": {"x": 1, "y": [1, 2]}, "b": 1}), tree({"a": {"y": [3]}, "b": {"c": 2}}))
    assert dump_plain(merged) == {"a": {"x": 1, "y": [3]}, "b": {"c": 2}}


def test_a_value_lists_all_overridden_values_nearest_first() -> None:
    merged = merge(merge(tree({"a": 1}, "low"), tree({"a": 2}, "middle")), tree({"a": 3}, "high"))
    found = find_at(merged, ("a",))
    assert isinstance(found, Scalar)
    assert [(dump_plain(each), each.where.source) for each in found.overridden] == [(2, "middle"), (1, "low")]


def test_deleted_keys_are_removed_below_and_not_beside() -> None:
    merged = merge(tree({"a": {"x": 1, "y": 2, "z": 3}}), tree({"a": {"_delete_key": "x, y", "y": 9}}))
    assert dump_plain(merged) == {"a": {"y": 9, "z": 3}}


def test_keys_merged_into_a_directive_in_text_keep_the_directive() -> None:
    merged = merge(tree({"a": "${inherit_from:b.c}"}), tree({"a": {"x": 1}}))
    assert dump_plain(merged) == {"a": {"_inherit_from": "b.c", "x": 1}}


def test_a_value_can_be_set_in_mappings_lists_and_where_nothing_is() -> None:
    root: Tree = tree({"a": [{"b": 1, "c": 2}], "d": None})
    root = set_at(root, ("a", "0", "b"), tree(9))
    root = set_at(root, ("d", "e"), tree(8))
    root = set_at(root, ("f", "g", "h"), tree(7))
    assert dump_plain(root) == {"a": [{"b": 9, "c": 2}], "d": {"e": 8}, "f": {"g": {"h": 7}}}


@pytest.mark.parametrize("index", ["1", "x", "-1"])
def test_a_list_item_that_is_not_there_cannot_be_set(index: str) -> None:
    with pytest.raises(IndexError):
        set_at(tree({"a": [1]}), ("a", index), tree(2))


def test_values_are_removed_from_mappings_and_lists() -> None:
    root = tree({"a": [1, 2, 3], "b": {"c": 1, "d": 2}})
    assert isinstance(root, DictTree)
    assert dump_plain(remove_at(remove_at(root, ("a", 1)), ("b", "c"))) == {"a": [1, 3], "b": {"d": 2}}
    with pytest.raises(KeyError):
        remove_at(root, ("b", "c", "deeper"))


def test_a_key_of_the_root_that_holds_dots_is_one_key() -> None:
    root = tree({"Qwen3.5-4B": {"x": 1}, "a": 1})
    assert split_path("Qwen3.5-4B.x.y", root) == ("Qwen3.5-4B", "x", "y")
    assert split_path("Qwen3.5-4B", root) == ("Qwen3.5-4B",)
    assert split_path("a.b", root) == ("a", "b")


def test_paths_are_rendered_with_dots_and_brackets() -> None:
    assert render_path(("a", "b", 0, "c", 1)) == "a.b[0].c[1]"


def test_a_value_that_no_configuration_can_hold_is_a_problem() -> None:
    problems = Problems()
    build_tree({"a": {1, 2}}, Location("here"), problems)
    assert "A configuration cannot contain a set" in problems.found[0].message
