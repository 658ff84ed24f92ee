from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.config._directives import Directives
from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.tree import DictTree, Scalar, build_tree, dump_plain, find_at, merge

CHAIN: dict[str, Any] = {
    "base": {"a": 1, "b": {"x": 1, "y": 2}, "c": [1]},
    "middle": {"_inherit_from": "base", "b": {"y": 3}},
    "top": {"_inherit_from": "middle", "a": 9, "_delete_key": "c"},
    "twin": {"_copy": "top.b", "z": "${copy:other.deep}"},
    "other": {"deep": {"_copy": "top.b", "w": 4}},
    "text": "${inherit_from:gone}",
    "gone": {"v": 5},
}
RESOLVED = {
    "top": {"a": 9, "b": {"x": 1, "y": 3}},
    "twin": {"x": 1, "y": 3, "z": {"x": 1, "y": 3, "w": 4}},
    "other": {"deep": {"x": 1, "y": 3, "w": 4}},
    "text": {"v": 5},
}


def tree(value: Any) -> DictTree:
    tree = build_tree(value, Location("here"), Problems())
    assert isinstance(tree, DictTree)
    return tree


def resolved(value: Any) -> Any:
    problems = Problems()
    found = dump_plain(Directives(tree(value), problems).resolve())
    assert not problems.found
    return found


def refused(value: Any) -> list[str]:
    problems = Problems()
    Directives(tree(value), problems).resolve()
    return [f"{problem.message} {problem.remedy or ''}".strip() for problem in problems.found]


@given(st.permutations(list(CHAIN)))
def test_a_chain_resolves_alike_in_whatever_order_it_is_written(order: list[str]) -> None:
    assert resolved({key: CHAIN[key] for key in order}) == RESOLVED


@given(st.permutations(["a", "b", "c", "d", "e"]))
def test_a_long_chain_inherits_from_end_to_end(order: list[str]) -> None:
    links: dict[str, Any] = {
        key: {"_inherit_from": after, key: 1} for key, after in zip("abcd", "bcde", strict=True)
    }
    links["e"] = {"e": 1}
    assert resolved({key: links[key] for key in order}) == {"a": dict.fromkeys("edcba", 1)}


def test_a_source_is_dropped_when_inherited_and_kept_when_copied() -> None:
    assert resolved({"x": {"_inherit_from": "s"}, "s": {"a": 1}}) == {"x": {"a": 1}}
    assert resolved({"x": {"_copy": "s"}, "s": {"a": 1}}) == {"x": {"a": 1}, "s": {"a": 1}}


def test_a_source_may_have_several_heirs() -> None:
    assert resolved({"x": {"_inherit_from": "s"}, "y": {"_inherit_from": "s", "b": 2}, "s": {"a": 1}}) == {
        "x": {"a": 1},
        "y": {"a": 1, "b": 2},
    }


def test_a_source_may_lie_deep_and_be_any_value() -> None:
    value = {
        "x": "${copy:s.a.b}",
        "y": ["${copy:s.a.c}"],
        "z": {"_copy": "s.l.1"},
        "s": {"a": {"b": 3, "c": None}, "l": [0, {"k": 1}]},
    }
    assert resolved(value) == {"x": 3, "y": [None], "z": {"k": 1}, "s": value["s"]}


def test_a_part_of_an_inherited_mapping_can_be_a_source() -> None:
    assert resolved(
        {"x": "${copy:heir.part.a}", "heir": {"_inherit_from": "s", "b": 1}, "s": {"part": {"a": 7}}}
    ) == {
        "x": 7,
        "heir": {"part": {"a": 7}, "b": 1},
    }


def test_a_directive_below_an_inherited_key_lies_between_the_two() -> None:
    value = {
        "heir": {"_inherit_from": "s", "part": {"_copy": "extra", "c": 3}},
        "s": {"part": {"a": 1, "b": 1, "c": 1}},
        "extra": {"b": 2, "c": 2},
    }
    assert resolved(value)["heir"] == {"part": {"a": 1, "b": 2, "c": 3}}


def test_deletion_reaches_inherited_keys_at_every_depth() -> None:
    value = {
        "x": {"_copy": "s", "b": {"_delete_key": "c"}, "_delete_key": "a"},
        "s": {"a": 1, "b": {"c": 2, "d": 3}},
    }
    assert resolved(value)["x"] == {"b": {"d": 3}}


def test_a_deletion_applies_to_the_included_file_and_to_its_inherited_keys() -> None:
    included = tree({"x": {"_copy": "s", "a": 1}, "s": {"a": 0, "b": 2}})
    including = tree({"x": {"_delete_key": "a"}})
    problems = Problems()
    merged = merge(included, including)
    assert isinstance(merged, DictTree)
    assert dump_plain(Directives(merged, problems).resolve())["x"] == {"b": 2}
    assert not problems.found


def test_a_mapping_is_replaced_by_deleting_it_beside_the_new_one() -> None:
    value = {"x": {"_copy": "s", "_delete_key": "a", "a": {"new": 1}}, "s": {"a": {"old": 1}}}
    assert resolved(value)["x"] == {"a": {"new": 1}}


def test_an_inheritance_is_taken_back_with_null() -> None:
    included = tree({"x": {"_inherit_from": "s", "a": 1}, "s": {"b": 2}})
    merged = merge(included, tree({"x": {"_inherit_from": None}}))
    assert isinstance(merged, DictTree)
    assert dump_plain(Directives(merged, Problems()).resolve()) == {"x": {"a": 1}, "s": {"b": 2}}


def test_an_inherited_value_lists_its_overridden_values() -> None:
    root = Directives(tree({"x": {"_copy": "s", "a": 2}, "s": {"a": 1}}), Problems()).resolve()
    found = find_at(root, ("x", "a"))
    assert isinstance(found, Scalar)
    assert [dump_plain(each) for each in found.overridden] == [1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": {"_copy": "a"}}, "`_copy` is circular: a -> a. Remove one of these references."),
        (
            {"a": {"_copy": "b"}, "b": {"_inherit_from": "c"}, "c": "${copy:a}"},
            "`_copy` is circular: a -> b -> c -> a. Remove one of these references.",
        ),
        (
            {"a": {"_copy": "b.x"}, "b": {"_copy": "a"}},
            "`_copy` is circular: a -> b.x -> b -> a. Remove one of these references.",
        ),
        ({"a": {"b": {"_copy": "a"}}}, "a.b contains itself. Take a part of it instead."),
        ({"a": {"x": {"_copy": "b"}}, "b": {"y": {"_copy": "a"}}}, "contains itself."),
        ({"a": {key: {"_copy": "a"} for key in "bcdefghijk"}}, "a.k contains itself."),
        ({"a": {"_copy": "sorce"}, "source": {}}, "`_copy`: there is no 'sorce'. Did you mean 'source'?"),
        ({"a": {"_copy": "s.inn"}, "s": {"inner": 1}}, "`_copy`: there is no 's.inn'. Did you mean 'inner'?"),
        ({"a": {"_copy": 3}}, "`_copy` must be the dotted path of another key."),
        ({"a": {"_copy": "s", "_inherit_from": "s"}, "s": {}}, "a has two sources."),
        ({"a": {"_copy": "s", "k": 1}, "s": 3}, "'s' is not a mapping, so no keys can be merged into it: k."),
        (
            {"a": {"_copy": "s", "_delete_key": "entr"}, "s": {"entry": 1}},
            "there is no key 'entr' in a. Did you mean 'entry'?",
        ),
        ({"a": {"_delete_key": "b", "b": 1}}, "`_delete_key`: there is no key 'b' in a."),
        ({"a": {"_delete_key": 3}}, '`_delete_key` must be names: "x, y".'),
    ],
)
def test_a_directive_that_cannot_be_followed_is_reported(value: Any, message: str) -> None:
    assert any(message in each for each in refused(value)), refused(value)


def test_all_directives_that_cannot_be_followed_are_reported_together() -> None:
    value = {"a": {"_copy": "x"}, "b": {"_copy": "y"}, "c": {"_copy": "c"}, "d": {"_delete_key": "k"}}
    assert len(refused(value)) == 4
