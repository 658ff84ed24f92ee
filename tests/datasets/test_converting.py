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


def test_a_table_becomes_tasks(tmp_path: Path) -> None:
    for ending, separator in ((".csv", ","), (".tsv", "\t")):
        source, output = tmp_path / f"q{ending}", tmp_path / "tasks.jsonl"
        lines = [("question", "answer", "level"), ('"What is\n2 + 2?"', "4", "easy"), ("3 + 3?", "6", "")]
        source.write_text("\ufeff" + "".join(f"{separator.join(line)}\r\n" for line in lines))
        assert convert_dataset(source, output) == 2
        first, second = (json.loads(line) for line in output.read_text().splitlines())
        assert first == {
            "responses_create_params": {"input": "What is\n2 + 2?"},
            "question": "What is\n2 + 2?",
            "level": "easy",
            "expected_answer": "4",
        }
        assert second["expected_answer"] == "6"


@pytest.mark.parametrize("line", ["4", "a,4,x,y"])
def test_a_row_of_a_table_with_other_cells_is_named(tmp_path: Path, line: str) -> None:
    source = tmp_path / "q.csv"
    source.write_text(f"question,answer\n2 + 2?,4\n{line}\n")
    with pytest.raises(ConfigError, match=r"q\.csv:3: the row has not the 2 cells"):
        convert_dataset(source, tmp_path / "tasks.jsonl")


def test_all_problems_of_a_table_are_told_at_once(tmp_path: Path) -> None:
    source, output = tmp_path / "q.csv", tmp_path / "tasks.jsonl"
    source.write_text("question,answer\n2 + 2?,\n3 + 3?,6,7\n , \n4 + 4?,8\n")
    with pytest.raises(ConfigError) as caught:
        convert_dataset(source, output)
    assert caught.value.failure.message.splitlines()[1:] == [
        f"  {source}:2: `answer` is empty",
        f"  {source}:3: the row has not the 2 cells of the first line",
        f"  {source}:4: `question` is empty and `answer` is empty",
    ]
    assert not output.exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("q.csv", "separated by commas, are `question;answer`"),
        ("q.tsv", "separated by tabs, are `question;answer`"),
    ],
)
def test_a_table_without_the_columns_of_tasks_is_refused_with_those_that_it_has(
    tmp_path: Path, name: str, told: str
) -> None:
    source = tmp_path / name
    source.write_text("question;answer\n2 + 2?;4\n3 + 3?;6\n")
    with pytest.raises(ConfigError, match=told) as caught:
        convert_dataset(source, tmp_path / "tasks.jsonl")
    assert "the answer (`answer` or `expected_answer`)" in str(caught.value.failure.remedy)
