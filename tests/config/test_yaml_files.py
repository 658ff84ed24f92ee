from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config._yaml_files import read_yaml
from nemo_gym.config.problems import Problems
from nemo_gym.config.tree import DictTree, dump_plain, find_at


def read(folder: Path, text: str) -> tuple[DictTree | None, list[str]]:
    file = folder / "a.yaml"
    file.write_text(text)
    problems = Problems()
    return read_yaml(file, "a.yaml", problems), [str(problem) for problem in problems.found]


def plain(folder: Path, text: str) -> Any:
    tree, problems = read(folder, text)
    assert not problems
    assert tree is not None
    return dump_plain(tree)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("off", False),
        ("12", 12),
        ("-1_000", -1000),
        ("0x1F", 31),
        ("010", 8),
        ("1e-6", 1e-6),
        ("1E5", 1e5),
        ("1.5", 1.5),
        (".inf", math.inf),
        ("2024-01-31", "2024-01-31"),
        ("12:30:45", "12:30:45"),
        ("1.2.3", "1.2.3"),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("=", "="),
        ("${a.b}", "${a.b}"),
    ],
)
def test_scalars_have_the_type_that_they_have_in_omegaconf(tmp_path: Path, text: str, value: object) -> None:
    found = plain(tmp_path, f"key: {text}")["key"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_the_text_that_was_written(tmp_path: Path) -> None:
    assert plain(tmp_path, "yes: 1\n2: two\nnull: 3\nistio.io/mode: none") == {
        "yes": 1,
        "2": "two",
        "null": 3,
        "istio.io/mode": "none",
    }


def test_every_value_has_its_line_and_column(tmp_path: Path) -> None:
    tree, _ = read(tmp_path, "a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n")
    assert tree is not None
    places = {
        path: str(found.where)
        for path in [("a",), ("a", "b"), ("a", "c", 0), ("a", "c", 1, "d")]
        if (found := find_at(tree, path))
    }
    assert places == {
        ("a",): "a.yaml:1:1",
        ("a", "b"): "a.yaml:2:3",
        ("a", "c", 0): "a.yaml:4:7",
        ("a", "c", 1, "d"): "a.yaml:5:8",
    }


def test_an_empty_file_is_an_empty_mapping(tmp_path: Path) -> None:
    assert plain(tmp_path, "# nothing yet\n") == {}


def test_anchors_and_merge_keys_are_resolved(tmp_path: Path) -> None:
    text = (
        "base: &base {a: 1, b: 2}\nother: &other {b: 3, c: 4}\nx:\n  <<: [*base, *other]\n  a: 9\ny: *base\n"
    )
    assert plain(tmp_path, text)["x"] == {"a": 9, "b": 2, "c": 4}
    assert plain(tmp_path, text)["y"] == {"a": 1, "b": 2}


def test_a_key_given_twice_is_a_problem_that_names_both_lines(tmp_path: Path) -> None:
    _, problems = read(tmp_path, "a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert problems == ["a.yaml:4:3: The key 'b' is given twice, first on line 2. Keep one of them."]


def test_all_repeated_keys_of_a_file_are_reported(tmp_path: Path) -> None:
    _, problems = read(tmp_path, "a: 1\na: 2\nb: {c: 1, c: 2}\n")
    assert [problem.split(": ")[0] for problem in problems] == ["a.yaml:2:1", "a.yaml:3:11"]


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("a: [1, 2\nb: 3\n", "a.yaml:2:2", "This is not YAML"),
        ("a: 1\n\tb: 2\n", "a.yaml:2:1", "This is not YAML"),
        ("a: *nothing\n", "a.yaml:1:4", "undefined alias"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2:1", "another document"),
        ("- a\n- b\n", "a.yaml:1:1", "must be a mapping of keys to values"),
        ("just text", "a.yaml:1:1", "must be a mapping of keys to values"),
        (
            "a: !!python/object:os.system x",
            "a.yaml:1:4",
            "The tag !!python/object:os.system is not supported",
        ),
        ("a: !secret x", "a.yaml:1:4", "The tag !secret is not supported"),
        ("a: !!int x", "a.yaml:1:4", "does not have the type int"),
        ("? [a, b]\n: 1", "a.yaml:1:3", "A key must be a single word"),
        ("a: &a\n  b: *a\n", "a.yaml:2:3", "contains it"),
        ("a:\n  <<: 3\n", "a.yaml:2:7", "`<<` must be a mapping"),
    ],
)
def test_an_invalid_file_is_a_problem_with_its_location(
    tmp_path: Path, text: str, place: str, part: str
) -> None:
    _, problems = read(tmp_path, text)
    assert len(problems) == 1, problems
    assert problems[0].startswith(f"{place}: ")
    assert part in problems[0]


def test_bytes_that_are_not_utf8_are_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: \xff\xfe")
    problems = Problems()
    assert read_yaml(file, "a.yaml", problems) is None
    assert [str(problem) for problem in problems.found] == [
        "a.yaml: The file cannot be read: it is not UTF-8 text."
    ]


def test_a_file_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    problems = Problems()
    assert read_yaml(tmp_path / "a.yaml", "a.yaml", problems) is None
    assert "No such file" in problems.found[0].message
    assert problems.has_gaps
