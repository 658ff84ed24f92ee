"""Files in the forms of others become datasets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.datasets.converting import convert_dataset
from nemo_gym.failures import ConfigError

ROW = {"messages": [{"role": "user", "content": "hi"}], "answer": 3}


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_becomes_lines(tmp_path: Path, indent: int | None) -> None:
    source, output = tmp_path / "chat.json", tmp_path / "tasks.jsonl"
    source.write_text(json.dumps([ROW, ROW], indent=indent))
    assert convert_dataset(source, output) == 2
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["answer"] for row in rows] == [3, 3]
    assert rows[0]["responses_create_params"]["input"][0]["content"] == "hi"


def test_lines_are_converted_one_by_one(tmp_path: Path) -> None:
    source, output = tmp_path / "chat.jsonl", tmp_path / "tasks.jsonl"
    source.write_text("".join(json.dumps(ROW) + "\n" for _ in range(3)))
    assert convert_dataset(source, output) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}\n3\n', ":1: there is neither"),
        ('{"a": 1}\n3\n', ":2: it is not a JSON object"),
        ('[{"a": 1}]', r"\[0\]: there is neither"),
        ("{torn\n", "is not JSON"),
        ("[1,", "is not JSON"),
        ("", "has no rows"),
    ],
)
def test_rows_that_are_no_tasks_are_all_named_and_nothing_is_written(
    tmp_path: Path, text: str, words: str
) -> None:
    source, output = tmp_path / "chat.jsonl", tmp_path / "tasks.jsonl"
    source.write_text(text)
    with pytest.raises(ConfigError, match=words):
        convert_dataset(source, output)
    assert not output.exists()


def test_the_source_is_not_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "chat.jsonl"
    source.write_text(json.dumps(ROW) + "\n")
    with pytest.raises(ConfigError):
        convert_dataset(source, source)
