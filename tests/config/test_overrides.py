from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import example, given
from hypothesis import strategies as st

from nemo_gym.config._overrides import Action, is_plain_key, parse_overrides, parse_plain_value
from nemo_gym.config.problems import Problem, Problems
from nemo_gym.config.tree import dump_plain


def parsed(
    *arguments: str, names: tuple[str, ...] = (), flags: tuple[str, ...] = ()
) -> list[tuple[Action, str, Any]]:
    problems = Problems()
    overrides = parse_overrides(arguments, problems, names, flags)
    assert not problems.found
    return [(each.action, each.key, dump_plain(each.value) if each.value else None) for each in overrides]


def refused(*arguments: str) -> list[Problem]:
    problems = Problems()
    parse_overrides(arguments, problems)
    return problems.found


@pytest.mark.parametrize(
    ("argument", "action", "key", "value"),
    [
        ("+config_paths=[a.yaml,b.yaml]", Action.ADD, "config_paths", ["a.yaml", "b.yaml"]),
        ("+config_paths=[\n  a.yaml,\n  b.yaml\n]", Action.ADD, "config_paths", ["a.yaml", "b.yaml"]),
        ("+config_paths=[ a.yaml , b.yaml ]", Action.ADD, "config_paths", ["a.yaml", "b.yaml"]),
        ("+config_paths= [a.yaml] ", Action.ADD, "config_paths", ["a.yaml"]),
        ("+a='one\ntwo'", Action.ADD, "a", "one\ntwo"),
        ("+a.b.c=1", Action.ADD, "a.b.c", 1),
        ("++a=1e-3", Action.ADD_OR_REPLACE, "a", 1e-3),
        ("a=null", Action.REPLACE, "a", None),
        ("a=true", Action.REPLACE, "a", True),
        ("a=", Action.REPLACE, "a", ""),
        ("a='true'", Action.REPLACE, "a", "true"),
        ('a="b=c,d"', Action.REPLACE, "a", "b=c,d"),
        ("a={b: 1, c: {d: [1, 2]}}", Action.REPLACE, "a", {"b": 1, "c": {"d": [1, 2]}}),
        ("a=[{b: 1}, {b: 'x,y'}]", Action.REPLACE, "a", [{"b": 1}, {"b": "x,y"}]),
        ("a=http://host:80/v1", Action.REPLACE, "a", "http://host:80/v1"),
        ("++a=${inherit_from:Some-Model-3}", Action.ADD_OR_REPLACE, "a", "${inherit_from:Some-Model-3}"),
        ("+a=${oc.env:HOME,/root}", Action.ADD, "a", "${oc.env:HOME,/root}"),
        ("~a.b", Action.DELETE, "a.b", None),
        ("~a=3", Action.DELETE, "a", 3),
        ("--a=1", Action.ADD_OR_REPLACE, "a", 1),
    ],
)
def test_hydras_grammar_is_understood(argument: str, action: Action, key: str, value: Any) -> None:
    assert parsed(argument) == [(action, key, value)]


def test_a_value_may_follow_its_key_after_a_space() -> None:
    assert parsed("--limit", "5", "--input", "a b.jsonl", "+x=1") == [
        (Action.ADD_OR_REPLACE, "limit", 5),
        (Action.ADD_OR_REPLACE, "input", "a b.jsonl"),
        (Action.ADD, "x", 1),
    ]


@pytest.mark.parametrize("following", ["+x=1", "++x=1", "~x", "--x", "x=1", "a.b=1"])
def test_a_key_before_another_override_is_a_flag(following: str) -> None:
    assert parsed("--json", following)[0] == (Action.ADD_OR_REPLACE, "json", True)


def test_a_known_flag_takes_no_value_but_true_and_false() -> None:
    assert parsed("--json", "false", flags=("json",)) == [(Action.ADD_OR_REPLACE, "json", False)]
    assert parsed("--json", flags=("json",)) == [(Action.ADD_OR_REPLACE, "json", True)]


def test_known_keys_may_be_written_with_dashes() -> None:
    assert parsed("--policy-base-url", "http://x", names=("policy_base_url",))[0][1] == "policy_base_url"
    assert parsed("--some-model.x", "1")[0][1] == "some-model.x"


@pytest.mark.parametrize("argument", ["a=1,2", "a=range(1,3)", "a=choice(x,y)", "a=glob(*)"])
def test_a_sweep_is_refused_with_both_ways_to_mean_something_else(argument: str) -> None:
    (problem,) = refused(argument)
    assert str(problem.where) == f"command line: {argument}"
    assert "sweep" in problem.message
    assert problem.remedy == "For a list, write a=[...]. For text with a comma, quote it twice: 'a=\"...\"'."


@pytest.mark.parametrize(
    ("argument", "message", "remedy"),
    [
        ("+a=b=c", "cannot be parsed", "Quote the value twice: '+a=\"b=c\"'."),
        ("+a=[b,", "cannot be parsed", "Check brackets"),
        ("configs/demo.yaml", "not `key=value`", "'+config_paths=[configs/demo.yaml]'"),
        ("verbose", "not `key=value`", "+verbose=<value>"),
        ("+db@here=x", "Hydra package", "Write the whole key"),
        ("a=foo(1)", "Unknown function", "Quote the value twice"),
    ],
)
def test_a_syntax_error_is_a_problem_with_a_remedy(argument: str, message: str, remedy: str) -> None:
    (problem,) = refused(argument)
    assert message in problem.message
    assert remedy in (problem.remedy or "")


def test_a_key_of_too_many_parts_is_a_problem() -> None:
    (problem,) = refused("+" + "a." * 3_000 + "a=1")
    assert problem.message == "The key has more than 100 parts."


def test_a_value_that_is_nested_too_deeply_is_a_problem() -> None:
    (problem,) = refused("+a=" + "[" * 5_000 + "]" * 5_000)
    assert problem.message == "The value cannot be parsed: its brackets are nested too deeply."


def test_the_remedy_for_a_value_that_cannot_be_parsed_can_be_parsed() -> None:
    (problem,) = refused("+a=x?y=1&z#(2)")
    assert problem.remedy is not None
    fixed = problem.remedy.split(": ", 1)[1].removesuffix(".").strip("'")
    assert parsed(fixed) == [(Action.ADD, "a", "x?y=1&z#(2)")]


def test_every_argument_that_cannot_be_parsed_is_reported() -> None:
    assert len(refused("a=1,2", "b=c=d", "e")) == 3


def test_a_duplicate_key_is_rejected_unless_written_with_two_pluses() -> None:
    (problem,) = refused("+a=1", "+a=2")
    assert problem.message == "The key 'a' is given twice, first as '+a=1'."
    assert [value for _, _, value in parsed("++a=1", "++a=2")] == [1, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["+policy_api_key=sk-canary"],
        ["--policy_api_key", "sk-canary"],
        ["--policy_api_key=sk-canary"],
        ["+a.b.password=sk-canary"],
        ["+policy_api_key=sk-canary=broken"],
        ["+a={headers: {Authorization: sk-canary}}"],
        ["+a={headers: {Authorization: sk-canary=broken}}"],
        ["+url=http://user:sk-canary@host/v1"],
        ["+url=[http://user:sk-canary@host/v1=broken"],
        ["+policy_api_key=sk-canary,other"],
    ],
)
def test_secrets_of_the_command_line_are_never_shown(arguments: list[str]) -> None:
    problems = Problems()
    overrides = parse_overrides(arguments, problems)
    shown = [str(each.where) for each in overrides] + [str(problem) for problem in problems.found]
    assert shown
    assert not any("sk-canary" in text for text in shown)


def test_no_arguments_load_no_parser() -> None:
    assert parse_overrides([], Problems()) == []


# --- Values that need no grammar --------------------------------------------------------------------------------------


_HYDRA = OverridesParser.create()
_ITEMS = st.text("aAeEfInNtTu_019-+./:$ ", max_size=6) | st.sampled_from(
    ["true", "NULL", "Inf", "nan", "-1.50"]
)
_VALUES = _ITEMS | st.lists(_ITEMS, max_size=3).map(lambda items: f"[{' , '.join(items)}]")


@given(_VALUES.map(str.strip))
@example("-0")
@example("01")
@example("1.")
@example("a:")
@example("../x-1.5")
@example("127.0.0.1")
@example("0.0.0.0")
@example("010.1.00.9")
@example("[10.0.0.1, x]")
@example("[ ]")
@example("[a,]")
def test_a_plain_value_is_the_one_of_hydras_grammar(text: str) -> None:
    try:
        plain = parse_plain_value(text)
    except ValueError:
        return
    try:
        theirs = _HYDRA.parse_override(f"+key={text}").value()
    except HydraException as error:
        raise AssertionError(f"Hydra refuses {text!r}") from error
    assert repr(plain) == repr(theirs)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[configs/demo.yaml, b.yaml]", ["configs/demo.yaml", "b.yaml"]),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("../results/math.jsonl", "../results/math.jsonl"),
        ("127.0.0.1", "127.0.0.1"),
        ("-3", -3),
        ("0.7", 0.7),
        ("TRUE", True),
        ("null", None),
        ("[]", []),
    ],
)
def test_values_that_users_type_are_plain(text: str, value: Any) -> None:
    assert parse_plain_value(text) == value


@pytest.mark.parametrize(
    "text", ["", "'a'", "a b", "1,2", "{a: 1}", "[[1]]", "${a}", "range(1,3)", "1e-3", "+1"]
)
def test_other_values_are_left_to_hydra(text: str) -> None:
    with pytest.raises(ValueError, match="needs a grammar"):
        parse_plain_value(text)


def test_infinity_and_nan_are_constants() -> None:
    assert parse_plain_value("inf") == math.inf
    assert math.isnan(parse_plain_value("NaN"))


@given(st.from_regex(r"[aZ_][aZ_0-]{0,2}(\.[aZ_][0_-]{0,2}){0,2}", fullmatch=True))
def test_a_plain_key_is_one_of_hydras_grammar(key: str) -> None:
    assert is_plain_key(key)
    assert _HYDRA.parse_override(f"+{key}=1").key_or_group == key


def test_plain_overrides_load_no_parser() -> None:
    program = (
        "import sys; from nemo_gym.config._overrides import parse_overrides; "
        "from nemo_gym.config.problems import Problems; "
        "parse_overrides(['+config_paths=[a.yaml]', '++limit=3', '--json'], Problems()); "
        "print('hydra' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("argument", ["+budget.run.token=5000", "+budget.rollout.token=5.5"])
def test_a_wrong_budget_is_shown(argument: str) -> None:
    problems = Problems()
    (override,) = parse_overrides([argument], problems)
    assert override.where.text == argument
    (hidden,) = parse_overrides(["+budget.run.token=hf_abcdefgh"], problems)
    assert "hf_abcdefgh" not in str(hidden.where)
    (secret,) = parse_overrides(["+service.token=50000000"], problems)
    assert "50000000" not in str(secret.where)
