"""The columns of a file of rows, read once and followed while the file grows."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

from nemo_gym.failures import GymError, InputError
from nemo_gym.processes.workers import WorkerPool
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.index_file import INDEXED_BYTES, read_stored_blocks
from nemo_gym.rollouts.output.row_index import (
    LENGTH_COLUMN,
    build_blocks,
    decode_block,
    read_block_end,
)
from nemo_gym.rollouts.plan.compression import DAMAGE, find_codec, holds_text, open_content
from nemo_gym.rollouts.plan.dataset import BYTE_ORDER_MARK
from nemo_gym.rows.identity import RolloutId

log = logging.getLogger(__name__)
T = TypeVar("T")

_PIECE_BYTES: Final = INDEXED_BYTES
"""Bytes that a worker reads at once. The first piece is smaller, so that the first rows show early."""
_FIRST_BYTES: Final = 1 << 20
_PIECE_TIMEOUT_S: Final = 600.0
_BLOCK_BYTES: Final = 1 << 20
_NICENESS: Final = 10


class LinePlace(NamedTuple):
    """The place of a line in the decompressed file."""

    start: int
    length: int
    """Bytes, with the line break."""


class PlainRows:
    """The decompressed content of a file of rows. A compressed file is decompressed once, to a private folder."""

    def __init__(self, path: Path, is_readable: Callable[[Path], bool]) -> None:
        self._path = path
        self._is_readable = is_readable
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._copied_from: tuple[int, int] | None = None

    def locate(self) -> Path | None:
        """Return a plain file with the content; None if there is no content. Blocks while it decompresses.

        Raises `InputError` for a damaged file.
        """
        if not self._is_readable(self._path) or not holds_text(self._path):
            return None
        if find_codec(self._path) is None:
            return self._path
        with open_content(self._path) as content:
            name = getattr(content, "name", None)
            return Path(name) if name is not None else self._copy_plain(content)

    def _copy_plain(self, content: IO[bytes]) -> Path:
        status = self._path.stat()
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="nemo_gym_view_")
        copy = Path(self._folder.name) / "rows.jsonl"
        if self._copied_from != (status.st_ino, status.st_size):
            try:
                with copy.open("wb") as file:
                    shutil.copyfileobj(content, file, _BLOCK_BYTES)
            except DAMAGE as error:
                raise InputError(
                    f"{self._path.name} is damaged: {error}",
                    code="rows_damaged",
                    remedy="Copy or compress the file again.",
                ) from error
            self._copied_from = status.st_ino, status.st_size
        return copy

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()


class FollowedRows:
    """The blocks of a file of rows. A block never changes; `generation` counts how often the file was replaced."""

    def __init__(
        self,
        path: Path,
        index: Path,
        pool: WorkerPool,
        *,
        is_readable: Callable[[Path], bool] = lambda path: True,
        may_store: Callable[[], bool] = lambda: False,
    ) -> None:
        """`index` is used if it describes the rows. It is written after a large file was read if `may_store()`.

        A file that is not readable has no rows.
        """
        self.blocks: list[bytes] = []
        self.generation = 0
        self.indexed_bytes = 0
        self.total_bytes = 0
        self._content = PlainRows(path, is_readable)
        self._is_readable = is_readable
        self._index = index
        self._pool = pool
        self._may_store = may_store
        self._inode: int | None = None
        self._reading: asyncio.Task[None] | None = None
        self._has_rows = asyncio.Event()

    async def refresh(self, patience_s: float = 0.5) -> None:
        """Read what was appended since the last call, for at most `patience_s` seconds; reading goes on after that."""
        reading = self._read_on()
        done, _ = await asyncio.wait([reading], timeout=patience_s)
        for task in done:
            task.result()

    async def refresh_soon(self, patience_s: float = 0.5) -> None:
        """Like `refresh`, but return once a file that was not read yet has its first rows."""
        if self.blocks:
            await self.refresh(patience_s)
            return
        reading, first = self._read_on(), asyncio.create_task(self._has_rows.wait())
        await asyncio.wait([reading, first], timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        first.cancel()
        if reading.done():
            reading.result()

    def _read_on(self) -> asyncio.Task[None]:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def read_row(self, start: int, length: int) -> bytes | None:
        """Return the bytes of the file from `start`; None if it does not have them."""
        return await asyncio.to_thread(self._row, start, length)

    def places(self) -> list[LinePlace]:
        """Return the places of the rows that were read, by line."""
        places: list[LinePlace] = []
        for block in map(decode_block, self.blocks):
            start = block.start
            for length in block.columns[LENGTH_COLUMN]:
                places.append(LinePlace(start, length))
                start += length
        return places

    def list_rollouts(self) -> set[RolloutId]:
        """Return the rollouts of the rows that were read."""
        blocks = (decode_block(block).columns for block in self.blocks)
        return {
            RolloutId(*pair) for block in blocks for pair in zip(block["task"], block["rollout"], strict=True)
        }

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        self._content.close()

    async def plain(self) -> Path | None:
        """Return a plain file with the content; None if there is none."""
        return await asyncio.to_thread(self._content.locate)

    def _row(self, start: int, length: int) -> bytes | None:
        path = self._content.locate()
        if path is None or start < 0 or not 0 < length <= path.stat().st_size - start:
            return None
        with path.open("rb") as file:
            return os.pread(file.fileno(), length, start).removeprefix(BYTE_ORDER_MARK)

    async def _read(self) -> None:
        path = await self.plain()
        if path is None:
            self._reset(None)
            return
        status = path.stat()
        if status.st_ino != self._inode or status.st_size < self.indexed_bytes:
            self._reset(status.st_ino)
            if self._is_readable(self._index):
                self._take(await asyncio.to_thread(_read_stored_blocks, self._index, path))
        self.total_bytes = status.st_size
        is_slow = self.total_bytes - self.indexed_bytes > _PIECE_BYTES
        work = partial(self._index_piece, path)
        async for _, blocks in work_in_pieces(
            path, self.indexed_bytes, self.total_bytes, work, self._pool.size
        ):
            self._take(blocks)
        if is_slow and self._may_store():
            await asyncio.to_thread(_store, self._index, self.blocks)

    def _reset(self, inode: int | None) -> None:
        if self._inode is not None:
            self.generation += 1
        self._inode, self.indexed_bytes, self.total_bytes = inode, 0, 0
        self.blocks = []
        self._has_rows.clear()

    def _take(self, blocks: list[bytes]) -> None:
        self.blocks += blocks
        if blocks:
            self.indexed_bytes = read_block_end(blocks[-1])
            self._has_rows.set()

    async def _index_piece(self, path: Path, start: int, end: int) -> list[bytes]:
        if (
            end - start < 2 * _FIRST_BYTES
        ):  # a first piece, with the rest of its last line: sooner than a worker starts
            return await asyncio.to_thread(index_piece, path, start, end)
        return await self._pool.run(_index_aside, path, start, end, timeout_s=_PIECE_TIMEOUT_S)


def _index_aside(path: Path, start: int, end: int) -> list[bytes]:
    """Index a piece in a worker that leaves the processor to the server and the browser, which show its first rows."""
    os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    return index_piece(path, start, end)


def index_piece(path: Path, start: int, end: int) -> list[bytes]:
    """Return the blocks of the bytes from `start` to `end`, which are bounds of lines."""
    with path.open("rb") as file:
        file.seek(start)
        return list(build_blocks(_next_lines(file, end - start), start))


def _next_lines(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the lines of the next `size` bytes of a file."""
    while size > 0 and (line := file.readline()):
        size -= len(line)
        yield line


async def work_in_pieces(
    path: Path, start: int, end: int, work: Callable[[int, int], Coroutine[Any, Any, T]], workers: int
) -> AsyncIterator[tuple[int, T]]:
    """Yield the end of each piece of whole lines with the result of `work(start, end)`, in order.

    The first piece is small, and done before the others begin. Then `workers` pieces are worked on while the next
    result is awaited.
    """
    pending: deque[tuple[int, asyncio.Task[T]]] = deque()
    try:
        for number, (first, stop) in enumerate(piece_bounds(path, start, end)):
            pending.append((stop, asyncio.create_task(work(first, stop))))
            if len(pending) > (workers if number else 0):
                reached, task = pending.popleft()
                yield reached, await task
        while pending:
            reached, task = pending.popleft()
            yield reached, await task
    finally:
        for _, task in pending:
            task.cancel()


def piece_bounds(path: Path, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of pieces of whole lines; the last ends with the last line break before `end`."""
    size = _FIRST_BYTES
    with path.open("rb") as file:
        while start < end:
            bound = min(start + size, end)
            file.seek(bound - 1)
            last = file.readline() if bound < end else b""
            stop = bound - 1 + len(last) if last else bound
            yield start, min(stop, end)
            start, size = stop, _PIECE_BYTES


def _read_stored_blocks(index: Path, rows: Path) -> list[bytes]:
    with rows.open("rb") as file:
        return read_stored_blocks(index, file)


def _store(index: Path, blocks: list[bytes]) -> None:
    try:
        write_atomically(index, blocks)
    except (OSError, GymError) as error:
        log.info("the index %s is not kept: %s", index, error)
