"""A run ends with an index of its rows, and a resumed one extends it."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import pytest

from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.index_file import extend_index, index_large_rows, read_stored_blocks
from nemo_gym.rollouts.output.row_index import decode_block, split_blocks


def lines(first: int, count: int) -> bytes:
    rows = [{"_ng_task_index": number, "reward": number / 2} for number in range(first, first + count)]
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def indexed(index: Path) -> list[float]:
    return [
        task for block in split_blocks(index.read_bytes()) for task in decode_block(block).columns["task"]
    ]


def test_later_rows_extend_the_index(tmp_path: Path) -> None:
    rows, index = tmp_path / "out.jsonl", tmp_path / "out_index"
    rows.write_bytes(lines(0, 3))
    extend_index(rows, index)
    before = index.read_bytes()
    rows.write_bytes(lines(0, 5))
    extend_index(rows, index)
    assert index.read_bytes().startswith(before)
    assert indexed(index) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("index_content", [b"", b"no index", b"NGI1 torn"])
def test_an_index_of_other_rows_is_replaced(tmp_path: Path, index_content: bytes) -> None:
    rows, index = tmp_path / "out.jsonl", tmp_path / "out_index"
    index.write_bytes(index_content)
    rows.write_bytes(lines(7, 2))
    extend_index(rows, index)
    assert indexed(index) == [7, 8]
    rows.write_bytes(lines(1, 4))
    with rows.open("rb") as file:
        assert read_stored_blocks(index, file) == []
    extend_index(rows, index)
    assert indexed(index) == [1, 2, 3, 4]


def test_a_compressed_file_is_described_by_its_content(tmp_path: Path) -> None:
    rows, index = tmp_path / "out.jsonl.gz", tmp_path / "out_index"
    rows.write_bytes(gzip.compress(lines(0, 3)))
    extend_index(rows, index)
    assert indexed(index) == [0, 1, 2]


async def test_only_large_files_are_indexed_at_the_end(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, "out")
    await index_large_rows(files)
    files.rows.write_bytes(lines(0, 3))
    await index_large_rows(files, least_bytes=files.rows.stat().st_size + 1)
    assert not files.index.exists()
    await index_large_rows(files, least_bytes=files.rows.stat().st_size)
    assert indexed(files.index) == [0, 1, 2]


async def test_the_journal_of_a_compressed_output_is_read(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, "out", ".jsonl.zst")
    files.rows.with_name("out.jsonl.zst.journal").write_bytes(lines(0, 2))
    await index_large_rows(files, least_bytes=1)
    assert indexed(files.index) == [0, 1]


async def test_a_failure_does_not_end_the_run(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, "out")
    files.rows.write_bytes(lines(0, 2))
    files.index.mkdir()
    await index_large_rows(files, least_bytes=1)
    assert files.index.is_dir()
