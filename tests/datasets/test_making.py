from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.datasets.checking import read_rows
from nemo_gym.datasets.making import (
    convert_rows,
    converter_options,
    generator_options,
    make_tasks,
    write_rows,
)


def make_task(index: int, rng: random.Random) -> dict[str, Any]:
    return {"id": index, "number": rng.random()}


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(path)]


def refusal(capsys: pytest.CaptureFixture[str], source: Path, output: Path) -> str:
    """The message of a conversion that fails; it leaves the output as it was."""
    output.write_text("before")
    with pytest.raises(SystemExit) as end:
        write_rows(convert_rows(source, lambda row: {"a": int(row["a"])}), output)
    assert end.value.code == 2
    assert output.read_text() == "before"
    return capsys.readouterr().err


def test_a_seed_makes_the_same_tasks_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new" / "tasks.jsonl"
    options = generator_options(None, ["--size", "3", "--seed", "7", "--output", str(output)])
    write_rows(make_tasks(make_task, options), options.output)
    assert capsys.readouterr().out == f"3 tasks in {output}\n"
    assert rows_in(output) == list(make_tasks(make_task, options))
    assert (generator_options(None, ["--output", "x"], size=8).size) == 8


def test_rows_are_converted_and_may_be_compressed(tmp_path: Path) -> None:
    source, target = tmp_path / "rows.jsonl", tmp_path / "tasks.jsonl.zst"
    source.write_text('{"a": "ä"}\n\n{"a": "b"}\n')
    options = converter_options(None, ["--input", str(source), "--output", str(target)])
    write_rows(convert_rows(options.input, lambda row: {"b": row["a"]}), options.output)
    assert rows_in(target) == [{"b": "ä"}, {"b": "b"}]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"b": 1}, "there is no field 'a'"),
        ({"a": "x"}, "invalid literal for int() with base 10: 'x'"),
        ([1], "the row must be a JSON object, not a list"),
    ],
)
def test_a_bad_row_is_named_by_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: Any, message: str
) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_bytes(b'{"a": 1}\n\n' + orjson.dumps(bad) + b"\n")
    assert f"{source}:3: {message}\n" in refusal(capsys, source, tmp_path / "out.jsonl")


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"cannot read {tmp_path / 'no.jsonl'}" in refusal(
        capsys, tmp_path / "no.jsonl", tmp_path / "out.jsonl"
    )
