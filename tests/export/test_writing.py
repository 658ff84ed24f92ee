from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.export._writing import ENDINGS, build_split_path, find_ending, has_rows, open_row_file
from nemo_gym.failures import ConfigError
from tests.export.rows import read

ROWS = [{"id": n, "ids": list(range(n)), "name": None if n % 2 else str(n)} for n in range(2500)]


def put(path: Path, rows: Iterable[Any] = ROWS) -> None:
    with open_row_file(path) as file:
        for each in rows:
            file.write(orjson.dumps(each) + b"\n")


@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_come_back_as_they_were_and_equal_rows_make_equal_files(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"a{ending}"
    put(path)
    assert read(path) == ROWS
    first = path.read_bytes()
    put(path)
    assert path.read_bytes() == first
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_an_incomplete_file_is_removed(tmp_path: Path) -> None:
    with pytest.raises(orjson.JSONEncodeError):
        put(tmp_path / "a.jsonl", [{}, object()])
    assert list(tmp_path.iterdir()) == []


def test_a_column_of_two_types_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.parquet"):
        put(tmp_path / "a.parquet", [{"a": 1}, {"a": "one"}])
    assert list(tmp_path.iterdir()) == []


def test_a_column_that_is_null_for_a_thousand_rows_takes_the_type_of_later_ones(tmp_path: Path) -> None:
    with open_row_file(tmp_path / "a.parquet") as file:
        for n in range(1500):
            file.write(orjson.dumps({"a": None if n < 1200 else {"b": n}}) + b"\n")
    assert read(tmp_path / "a.parquet")[-1] == {"a": {"b": 1499}}


def test_endings_decide_the_format_and_split_names_precede_them() -> None:
    assert find_ending(Path("x.jsonl.zst")) == ".jsonl.zst"
    assert build_split_path(Path("d/x.jsonl.gz"), "train") == Path("d/x_train.jsonl.gz")
    for name in ("x.txt", "x", ".jsonl"):
        with pytest.raises(ConfigError, match="ends in none of"):
            find_ending(Path(name))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write"), open_row_file(tmp_path / "file" / "a.jsonl"):
        pass


@pytest.mark.parametrize("ending", ENDINGS)
def test_only_a_file_with_rows_is_taken(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    assert not has_rows(path)
    put(path, [])
    assert not has_rows(path)
    put(path)
    assert has_rows(path)
    path.write_bytes(b"\xff not a file of an export")
    assert has_rows(path)
    path.unlink()
    path.mkdir()
    assert has_rows(path)


def test_a_document_has_its_rows_in_one_member(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for rows in ([], ROWS):
        with open_row_file(path, {"version": 2}, "samples") as file:
            for each in rows:
                file.write(orjson.dumps(each) + b"\n")
        assert orjson.loads(path.read_bytes()) == {"version": 2, "samples": rows}
    assert has_rows(path)
