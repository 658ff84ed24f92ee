"""YAML texts of bounded depth and size."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nemo_gym.config._yaml_files import read_yaml
from nemo_gym.config.problems import Problems
from nemo_gym.config.yaml_text import MAX_DEPTH, MAX_REPEATED, load_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
)
MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{level}: &a{level} {{{', '.join(f'k{number}: *a{level - 1}' for number in range(9))}}}\n"
    for level in range(1, 9)
)
TOO_LARGE = {
    "lists of aliases": (BOMB, 6),
    "mappings of aliases": (MERGES, 6),
    "brackets": ("a: " + "[" * 5_000 + "]" * 5_000, 1),
    "brackets that do not end": ("a: 1\nb: " + "[" * 50_000, 2),
    "braces": ("a: " + "{a: " * 5_000 + "1" + "}" * 5_000, 1),
    "dashes": ("a:\n" + "- " * 5_000 + "1", 2),
    "indentation": ("".join(" " * level + "a:\n" for level in range(MAX_DEPTH + 5)), MAX_DEPTH + 1),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_a_text_that_stands_for_too_much_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    text, line = TOO_LARGE[case]
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)
    file, problems = tmp_path / "a.yaml", Problems()
    file.write_text(text)
    assert read_yaml(file, "a.yaml", problems) is None
    (problem,) = problems.found
    assert str(problem).startswith(f"a.yaml:{line}:")
    assert "refused" in str(problem)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 2]\nb: *a\nc: {d: *a, <<: {e: *a}}",
        "a: &a {b: 1}\nc:\n  <<: *a\n  d: 2",
        "a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1),
        "a: &a x\nb: [" + "*a, " * 1000 + "]",
        "",
    ],
)
def test_ordinary_texts_are_loaded_as_before(text: str) -> None:
    assert load_yaml(text) == yaml.safe_load(text) == load_yaml(text.encode())


def test_a_long_text_without_aliases_has_any_size() -> None:
    assert len(load_yaml("a: [" + "1, " * (2 * MAX_REPEATED) + "]")["a"]) == 2 * MAX_REPEATED


def test_a_value_that_contains_itself_stays_the_problem_of_its_reader() -> None:
    value = load_yaml("a: &a [*a]")
    assert value["a"][0] is value["a"]
