"""Interpolations that make too much are refused; those that only look so are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from nemo_gym.config._evaluation import MAX_SIZE, EvaluationError, InterpolatedValues, TooLargeError
from tests.config.small_gym import problems_of

DEEP = "abcdefghijklmn"


def bomb(value_of: Callable[[str], str], last: str) -> str:
    """Return lines of which each refers to the next one several times."""
    lines = [f"{key}: {value_of(below)}" for key, below in pairwise(DEEP)]
    return "\n".join([*lines, f"{DEEP[-1]}: {last}", ""])


def _mapping(value: str) -> str:
    return "{" + ", ".join(f"k{number}: {value}" for number in range(6)) + "}"


BOMBS = {
    "texts": bomb(lambda key: f"'{f'${{{key}}}' * 10}'", "zzzzzzzzzz"),
    "lists": bomb(lambda key: str([f"${{{key}}}"] * 6), "x"),
    "mappings": bomb(lambda key: _mapping(f"'${{{key}}}'"), "x"),
    "selected": bomb(lambda key: f"'{f'${{oc.select:{key}}}' * 10}'", "zzzzzzzzzz"),
    "decoded": bomb(lambda key: f"\"${{oc.decode:'[{','.join([f'${{{key}}}'] * 10)}]'}}\"", "x"),
    "values": bomb(lambda key: _mapping(f"'${{oc.dict.values:{key}}}'"), "{q: 1}"),
    "one long line": f"b: {'z' * 1_000_000}\na: '{'${b}' * 1000}'\n",
    "many lines": f"b: {'z' * 1_000_000}\n" + "".join(f"a{number}: '${{b}}'\n" for number in range(100)),
    "the environment": "a: '" + "${oc.env:GYM_TEST_LONG}" * 1000 + "'\n",
}


@pytest.mark.parametrize("case", BOMBS)
def test_an_interpolation_bomb_is_refused_with_its_place(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYM_TEST_LONG", "z" * 100_000)
    found = [str(problem) for problem in problems_of(tmp_path, BOMBS[case])]
    refused = [each for each in found if "is refused: interpolations make more than 16 MiB" in each]
    assert len(refused) == 1, found
    assert refused[0].startswith("main.yaml:")


@pytest.mark.parametrize("directive", ["{_copy: %s}", "{_inherit_from: %s}", "'${copy:%s}'"])
def test_a_bomb_of_directives_is_refused_with_its_place(directive: str, tmp_path: Path) -> None:
    text = bomb(lambda key: _mapping(directive % key), "{q: 1}")
    found = [str(problem) for problem in problems_of(tmp_path, text)]
    assert any(each.startswith("main.yaml:") and "repeat more than 100000 values" in each for each in found)


def test_a_long_chain_of_directives_is_refused(tmp_path: Path) -> None:
    text = "".join(f"k{n}: {{_inherit_from: k{n + 1}}}\n" for n in range(3000)) + "k3000: {a: 1}\n"
    assert any("follow each other" in str(problem) for problem in problems_of(tmp_path, text))


def evaluated(data: dict[str, object], key: str) -> object:
    paths = [(name,) for name, value in data.items() if isinstance(value, str) and "${" in value]
    return InterpolatedValues(data, paths).value_at((key,))


def test_many_references_to_little_are_evaluated() -> None:
    data: dict[str, object] = {key: f"${{{below}}}" * 4 for key, below in pairwise(DEEP[:8])}
    assert evaluated({**data, DEEP[7]: "x"}, "a") == "x" * 4**7
    assert evaluated({**data, DEEP[7]: ""}, "a") == ""


def test_a_long_chain_is_evaluated() -> None:
    data: dict[str, object] = {f"k{number}": f"${{k{number + 1}}}" for number in range(1500)}
    assert evaluated({**data, "k1500": 7}, "k0") == 7


def test_a_long_text_without_many_references_is_evaluated() -> None:
    text = "z" * (MAX_SIZE - 10)
    assert evaluated({"a": "${b}", "b": text}, "a") == text
    with pytest.raises(TooLargeError, match="more than 16 MiB"):
        evaluated({"a": "${b}${b}", "b": text}, "a")


@pytest.mark.parametrize(
    "data",
    [
        {"a": "${b}", "b": "${a}"},
        {"a": "${b}", "b": "${c}", "c": "${b}"},
        {"a": "${b}${c}", "b": "1", "c": "${b}${a}"},
    ],
)
def test_a_value_that_refers_to_itself_is_an_error(data: dict[str, object]) -> None:
    with pytest.raises(EvaluationError, match="refers to itself"):
        evaluated(data, "a")


def test_escaped_text_stays_escaped_over_several_steps() -> None:
    data: dict[str, object] = {"a": "${b}", "b": "${c}!", "c": r"\${d}", "d": "wrong"}
    assert evaluated(data, "a") == "${d}!"
    section = {"a": "${s}", "t": "${a}", "s": {"x": r"\${d}", "y": "${d}"}, "d": 1}
    paths = [("a",), ("t",), ("s", "x"), ("s", "y")]
    assert InterpolatedValues(section, paths).value_at(("t",)) == {"x": "${d}", "y": 1}


def test_a_nested_reference_is_evaluated_after_what_it_needs() -> None:
    data: dict[str, object] = {"a": "${b.${c}}", "b": {"q": 5}, "c": "${d}", "d": "${e}", "e": "q"}
    assert evaluated(data, "a") == 5
