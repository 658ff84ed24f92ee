from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.config import _interpolation
from nemo_gym.config._interpolation import references, report_missing, resolve, secret_paths
from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.tree import DictTree, build_tree
from tests.config.small_gym import load_text, problems_of


def tree(value: Any) -> DictTree:
    tree = build_tree(value, Location("here"), Problems())
    assert isinstance(tree, DictTree)
    return tree


def resolved(value: Any) -> Any:
    problems = Problems()
    data = resolve(tree(value), problems)
    assert not problems.found
    return data


@pytest.mark.parametrize("value", [1, 1.5, True, None, "text", [1, {"a": None}], {"b": [1]}, ""])
def test_an_interpolated_value_keeps_its_type(value: Any) -> None:
    assert resolved({"a": "${b}", "b": value}) == {"a": value, "b": value}


_NAMES = st.sampled_from(["a", "b", "c-d", "_e", "null", "true", "1"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(".".join)
_TEXTS = st.sampled_from(["", "x", "1", "null", "???", r"\${a}", "y" * 300])
_NUMBERS = st.booleans() | st.integers(-3, 3) | st.floats()
_LEAVES = st.none() | _NUMBERS | _TEXTS | _PATHS.map(lambda path: f"${{{path}}}")
_TREES = st.recursive(
    _LEAVES, lambda below: st.dictionaries(_NAMES, below, max_size=3) | st.lists(below, max_size=2)
)


@given(st.dictionaries(_NAMES, _TREES, max_size=4), st.none() | st.sets(_NAMES))
@settings(max_examples=300, deadline=None)
def test_a_whole_value_is_that_of_omegaconf(value: dict[str, Any], only: set[str] | None) -> None:
    answers = []
    for find in (_interpolation._find_whole, lambda text, data: _interpolation._NOT_FOUND):
        problems = Problems()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(_interpolation, "_find_whole", find)
            answers.append(
                (repr(resolve(tree(value), problems, only=only)), [str(each) for each in problems.found])
            )
    assert answers[0] == answers[1]


def test_interpolation_works_within_text_in_lists_and_over_several_steps() -> None:
    data = resolved({"a": ["x ${b} y", {"c": "${b}${d.e}"}], "b": "${d.e}", "d": {"e": 1}})
    assert data["a"] == ["x 1 y", {"c": "11"}]


def test_relative_and_nested_interpolation_are_those_of_omegaconf() -> None:
    data = resolved({"a": {"b": "${.c}", "c": 1, "d": "${..e.${.which}}", "which": "f"}, "e": {"f": 2}})
    assert (data["a"]["b"], data["a"]["d"]) == (1, 2)


def test_keys_that_hold_dots_are_left_alone() -> None:
    assert resolved({"labels": {"istio.io/mode": "${a}"}, "a": 1})["labels"] == {"istio.io/mode": 1}


def test_an_escaped_interpolation_is_text() -> None:
    assert resolved({"a": r"\${b} and ${c}", "c": 1})["a"] == "${b} and 1"


def test_environment_variables_and_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_TEST_VALUE", "here")
    monkeypatch.delenv("GYM_TEST_ABSENT", raising=False)
    data = resolved({"a": "${oc.env:GYM_TEST_VALUE}", "b": "${oc.env:GYM_TEST_ABSENT,fallback}"})
    assert data == {"a": "here", "b": "fallback"}


def test_a_reference_to_a_missing_value_has_none_either() -> None:
    assert resolved({"a": "${b}", "b": "???"})["a"] is None


def test_values_without_interpolation_load_no_omegaconf() -> None:
    assert resolved({"a": "plain", "b": [1, None]}) == {"a": "plain", "b": [1, None]}


def test_all_mandatory_values_are_reported_with_their_places(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, "a:\n  b: ???\n  c: [1, '???']\nd: ${a.b}\n", "+e=???")
    missing = {str(each.where): each.message for each in problems if "???" in each.message}
    assert missing == {
        "main.yaml:2:3": "a.b is required: its value is ???.",
        "main.yaml:3:10": "a.c[1] is required: its value is ???.",
        "command line: +e=???": "e is required: its value is ???.",
    }
    assert problems[0].remedy is not None
    assert problems[0].remedy.startswith("Write +a.b=<value>")


def test_a_mandatory_value_that_is_given_or_deleted_is_not_missing(tmp_path: Path) -> None:
    text = "shared: {a: '???', b: '???', c: 1}\nheir: {_inherit_from: shared, a: 2, _delete_key: b}\n"
    assert load_text(tmp_path, text).data["heir"] == {"c": 1, "a": 2}


def test_an_unknown_key_is_reported_once_however_often_it_is_named(tmp_path: Path) -> None:
    text = "a: ['${policy_modle}', 'x ${policy_modle}', '${policy_modle}']\npolicy_model: x\n"
    unknown = [each for each in problems_of(tmp_path, text) if "refers to" in each.message]
    assert len(unknown) == 1
    assert str(unknown[0].where) == "main.yaml:1:5"
    assert unknown[0].message == "a[0] refers to `${policy_modle}` (and in 2 more), which does not exist."
    assert (unknown[0].remedy or "").startswith("Did you mean 'policy_model'? Write +policy_modle=<value>")


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("a: '${b'\n", "main.yaml:1:1", "a contains a malformed `${...}`"),
        (
            "a: ${oc.env:GYM_TEST_ABSENT}\n",
            "main.yaml:1:1",
            "a needs the environment variable GYM_TEST_ABSENT",
        ),
        ("a: ${nothing:1}\n", "main.yaml:1:1", "Unsupported interpolation type nothing"),
        ("a: x ${copy:b}\nb: {c: 1}\n", "main.yaml:1:1", "Unsupported interpolation type copy"),
        ("a: ${b}\nb: ${a}\n", "main.yaml:1:1", "a cannot be resolved"),
    ],
)
def test_an_interpolation_that_fails_is_a_problem_with_its_place(
    tmp_path: Path, text: str, place: str, part: str
) -> None:
    found = [str(problem) for problem in problems_of(tmp_path, text)]
    assert any(each.startswith(f"{place}: ") and part in each for each in found), found


def test_every_failing_interpolation_is_reported(tmp_path: Path) -> None:
    text = "list:\n  - ${oc.env:GYM_TEST_A}\n  - ${oc.env:GYM_TEST_B}\n  - '${'\n  - ${c}\n"
    assert [str(each.where) for each in problems_of(tmp_path, text)] == [
        "main.yaml:4:5",
        "main.yaml:2:5",
        "main.yaml:3:5",
        "main.yaml:5:5",
    ]


def test_the_text_of_a_malformed_secret_is_not_shown(tmp_path: Path) -> None:
    assert not any("canary" in str(each) for each in problems_of(tmp_path, "hf_token: '${canary'\n"))


def test_secrets_are_followed_through_interpolation() -> None:
    root = tree(
        {
            "policy_api_key": "k",
            "a": {"b": "${policy_api_key}", "c": "Bearer ${a.b}", "d": "${.b}", "e": "${plain}"},
            "plain": "p",
            "f": "${oc.env:MY_API_KEY,}",
            "list": ["${a.c}"],
        }
    )
    assert secret_paths(root) == {
        ("policy_api_key",),
        ("a", "b"),
        ("a", "c"),
        ("a", "d"),
        ("f",),
        ("list", 0),
    }


def test_missing_values_are_found_in_every_corner() -> None:
    problems = Problems()
    report_missing(tree({"a": [{"b": "???"}], "c": {}, "d": []}), problems)
    assert [problem.message for problem in problems.found] == ["a[0].b is required: its value is ???."]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("${oc.env:GYM_TEST_ABSENT," * 200 + "x" + "}" * 200, "nested more than 50 deep"),
        ("${" * 40_000, "nested more than 50 deep"),
        ("${oc.create:" + "[" * 300 + "]" * 300 + "}", "nested more than 50 deep"),
        ("${oc.create:" + "{a: " * 60 + "1" + "}" * 61, "nested more than 50 deep"),
        ("a text " + "${b." * 51, "nested more than 50 deep"),
        ("${b}" * 10_000, "longer than 32 KiB"),
        ("${" + " " * 40_000 + "b}", "longer than 32 KiB"),
        ("${" + "b" * 40_000, "longer than 32 KiB"),
    ],
)
def test_interpolations_that_are_too_much_for_the_parser_are_refused_with_their_place(
    tmp_path: Path, text: str, part: str
) -> None:
    [found] = problems_of(tmp_path, f"b: x\na:\n  c: '{text}'\n  d: ${{b}}\n")
    assert str(found.where) == "main.yaml:3:3"
    assert found.message.startswith("a.c is refused: its interpolations are ")
    assert part in found.message


@pytest.mark.parametrize("opened", ["${oc.env:GYM_TEST_ABSENT,", "${"])
def test_an_included_file_whose_name_is_too_deep_is_refused_too(tmp_path: Path, opened: str) -> None:
    [found] = problems_of(tmp_path, f"config_paths: ['{opened * 200}x{'}' * 200}']\n")
    assert str(found.where).startswith("main.yaml:1:")
    assert "nested more than 50 deep" in found.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[" * 300 + "${b}" + "]" * 300, "[" * 300 + "x" + "]" * 300),
        (r"\${" * 300 + "${b}", "${" * 300 + "x"),
        ("{" * 300 + "${b}", "{" * 300 + "x"),
        ("x" * 100_000 + "${b}", "x" * 100_001),
        ("${oc.env:GYM_TEST_ABSENT," * 50 + "x" + "}" * 50, "x"),
        ("${b} " * 300, "x " * 300),
        ("${ b }", "x"),
    ],
)
def test_brackets_and_long_texts_outside_of_interpolations_are_text(text: str, value: str) -> None:
    assert resolved({"b": "x", "a": text})["a"] == value


def test_blanks_within_an_interpolation_do_not_delay_its_references() -> None:
    assert references(tree({"a": "${" + " " * 30_000, "b": "${ c d }"})) == {("a",): set(), ("b",): {"c d"}}


@pytest.mark.parametrize("depth", [100, 300, 3000])
def test_a_variable_that_is_decoded_may_be_nested_too_deeply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    monkeypatch.setenv("GYM_TEST_DEEP", "[" * depth + "]" * depth)
    found = problems_of(tmp_path, "a: ${oc.decode:${oc.env:GYM_TEST_DEEP}}\nb: ${oc.env:GYM_TEST_ABSENT}\n")
    assert any("GYM_TEST_ABSENT" in each.message for each in found)
    assert depth < 300 or any("a cannot be resolved" in each.message for each in found)
