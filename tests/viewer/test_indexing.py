"""Files of rows are indexed in pieces, and followed while they grow."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.processes.workers import WorkerPool
from nemo_gym.rollouts.output.row_index import decode_block, split_blocks
from nemo_gym.viewer import indexing
from nemo_gym.viewer.indexing import FollowedRows, piece_bounds


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(2)
    yield pool
    await pool.close()


def lines(first: int, count: int, padding: int = 0) -> bytes:
    rows = (
        {"_ng_task_index": number, "reward": 1.0, "text": "x" * padding}
        for number in range(first, first + count)
    )
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


async def read_whole(rows: FollowedRows) -> list[int]:
    """Return the task of every indexed row, once the whole file is read."""
    await rows.refresh(patience_s=60)
    return tasks_of(rows)


def tasks_of(rows: FollowedRows) -> list[int]:
    blocks: list[Any] = [decode_block(block) for block in rows.blocks]
    assert [block.start for block in blocks[1:]] == [block.end for block in blocks[:-1]]
    return [int(task) for block in blocks for task in block.columns["task"]]


async def test_a_growing_file_is_followed_without_changing_blocks(tmp_path: Path, pool: WorkerPool) -> None:
    path = tmp_path / "out.jsonl"
    rows = FollowedRows(path, tmp_path / "out_index", pool)
    assert await read_whole(rows) == []
    path.write_bytes(lines(0, 3) + b'{"_ng_task_in')
    assert await read_whole(rows) == [0, 1, 2]
    before = list(rows.blocks)
    with path.open("ab") as file:
        file.write(b'dex": 3}\n' + lines(4, 2))
    assert await read_whole(rows) == [0, 1, 2, 3, 4, 5]
    assert rows.blocks[: len(before)] == before
    assert rows.indexed_bytes == path.stat().st_size
    await rows.close()


async def test_large_files_are_read_in_pieces_by_workers(
    tmp_path: Path, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "_FIRST_BYTES", 1000)
    monkeypatch.setattr(indexing, "_PIECE_BYTES", 3000)
    path = tmp_path / "out.jsonl"
    path.write_bytes(lines(0, 300, padding=40) + lines(300, 1, padding=9000) + lines(301, 20))
    rows = FollowedRows(path, tmp_path / "out_index", pool)
    assert await read_whole(rows) == list(range(321))
    assert pool.stats.completed > 1
    await rows.close()


async def test_the_first_rows_of_a_file_do_not_wait_for_the_others(
    tmp_path: Path, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "_FIRST_BYTES", 1000)
    path = tmp_path / "out.jsonl"
    path.write_bytes(lines(0, 100, padding=40))
    rows = FollowedRows(path, tmp_path / "out_index", pool)
    await rows.refresh_soon(patience_s=60)
    assert 0 < len(tasks_of(rows)) < 100
    assert await read_whole(rows) == list(range(100))
    await rows.refresh_soon(patience_s=60)
    assert tasks_of(rows) == list(range(100))
    await rows.close()


async def test_a_replaced_file_is_read_again(tmp_path: Path, pool: WorkerPool) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(lines(0, 3))
    rows = FollowedRows(path, tmp_path / "out_index", pool)
    assert await read_whole(rows) == [0, 1, 2]
    other = tmp_path / "other"
    other.write_bytes(lines(7, 2))
    other.rename(path)
    assert await read_whole(rows) == [7, 8]
    assert rows.generation == 1
    path.unlink()
    assert await read_whole(rows) == []
    await rows.close()


@pytest.mark.parametrize("may_store", [True, False])
async def test_the_index_of_a_large_file_is_kept_if_allowed(
    tmp_path: Path, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, may_store: bool
) -> None:
    monkeypatch.setattr(indexing, "_PIECE_BYTES", 1000)
    path, index = tmp_path / "out.jsonl", tmp_path / "out_index"
    path.write_bytes(lines(0, 100))
    rows = FollowedRows(path, index, pool, may_store=lambda: may_store)
    await read_whole(rows)
    assert index.exists() is may_store
    if may_store:
        assert split_blocks(index.read_bytes()) == rows.blocks
    await rows.close()


async def test_a_stored_index_is_used_only_if_it_describes_the_rows(tmp_path: Path, pool: WorkerPool) -> None:
    path, index = tmp_path / "out.jsonl", tmp_path / "out_index"
    path.write_bytes(lines(0, 3))
    first = FollowedRows(path, index, pool)
    await read_whole(first)
    index.write_bytes(b"".join(first.blocks))
    with path.open("ab") as file:
        file.write(lines(3, 1))
    second = FollowedRows(path, index, pool)
    assert await read_whole(second) == [0, 1, 2, 3]
    assert second.blocks[0] == first.blocks[0]
    path.write_bytes(lines(5, 4))
    third = FollowedRows(path, index, pool)
    assert await read_whole(third) == [5, 6, 7, 8]
    for rows in (first, second, third):
        await rows.close()


async def test_rows_of_a_compressed_file_are_read_by_their_place(tmp_path: Path, pool: WorkerPool) -> None:
    path = tmp_path / "out.jsonl.gz"
    path.write_bytes(gzip.compress(lines(0, 3)))
    rows = FollowedRows(path, tmp_path / "out_index", pool)
    assert await read_whole(rows) == [0, 1, 2]
    length = len(lines(0, 1))
    assert await rows.read_row(length, length) == lines(1, 1)
    assert await rows.read_row(length, 10_000) is None
    assert await rows.read_row(-1, 5) is None
    await rows.close()


@pytest.mark.parametrize("end", range(60))
def test_pieces_end_with_line_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    monkeypatch.setattr(indexing, "_FIRST_BYTES", 4)
    monkeypatch.setattr(indexing, "_PIECE_BYTES", 7)
    content = b"a\nbb\n\n" + b"c" * 20 + b"\ndddd\neeeeeeee\nf\n"
    content += b"g" * (60 - len(content))
    path = tmp_path / "lines"
    path.write_bytes(content)
    bounds = list(piece_bounds(path, 0, end))
    assert b"".join(content[start:stop] for start, stop in bounds) == content[:end]
    assert all(content[stop - 1 : stop] == b"\n" for _, stop in bounds[:-1])
