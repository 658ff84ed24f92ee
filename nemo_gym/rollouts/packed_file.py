"""A compressed JSONL file that only grows, and that outlives the death of its writer no worse than a plain one.

Compression needs many rows at a time, safety needs each at once. So the latest rows stand in a plain file beside it,
`<name>.tail`, by one write each before `append` returns. When the tail has grown to `FRAME_BYTES` it is compressed into
one frame, which is written behind the earlier ones, and the tail is emptied. `kill -9` between any two of these steps,
or within one, loses nothing:

    tail holds rows ──▶ frame half written ──▶ frame whole, tail still holds it ──▶ tail empty
                        recover: cut it off    recover: empty the tail

A file that was closed is whole by itself, and has no tail. Readers that meet a tail (`open_packed`) read it too.
"""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.append_file import AppendFile, is_object
from nemo_gym.rollouts.compression import DAMAGE, Codec, Frames, codec_of
from nemo_gym.rollouts.disk import disk, write_file

log = logging.getLogger(__name__)

FRAME_BYTES: Final = 1 << 20
"""How much a frame holds, uncompressed: enough for compression to come to its best, little enough to take no time."""
_TAIL: Final = ".tail"
_READ_BYTES: Final = 1 << 20


def tail_of(path: Path) -> Path:
    """Where the latest rows of a compressed file stand while it is being written."""
    return path.with_name(path.name + _TAIL)


def holds_text(path: Path) -> bool:
    """Whether a file is there and not empty, or has a tail that is."""
    return any(each.exists() and each.stat().st_size > 0 for each in (path, tail_of(path)))


class PackedFile:
    """A compressed JSONL file open for appending, locked against a second writer."""

    def __init__(self, path: Path, codec: Codec, *, frame_bytes: int = FRAME_BYTES) -> None:
        """Raises `ConfigError` when the file cannot be opened, or when another process is writing it."""
        self.path = path
        self._codec = codec
        self._frame_bytes = frame_bytes
        self._frames = AppendFile(path)
        try:
            self._tail = AppendFile(tail_of(path))
        except BaseException:
            self._frames.close()
            raise
        self._is_in_order = self._tail.size == 0
        """Whether the tail is known to hold what is in no frame: not before `recover` where a death left one."""

    def append(self, line: bytes) -> None:
        """Write `line`, which has no line break, and end it. Raises `ConfigError` when the disk refuses it."""
        if self._tail.size >= self._frame_bytes:
            self._pack()
        self._tail.append(line)

    def sync(self) -> None:
        """Return when all that was appended would outlive a power cut. Raises `ConfigError` as `append` does."""
        self._frames.sync()
        self._tail.sync()

    def recover(self, keep_torn_at: Path) -> int:
        """Put in order what a death has left, and give the number of bytes that were torn and kept at `keep_torn_at`.

        Raises `ConfigError` for a file that is damaged elsewhere than at its end.
        """
        frames, torn = self._survey()
        kept = len(torn) if self._tail.size == 0 else 0
        if kept:
            write_file(keep_torn_at, torn)
        if torn:
            self._frames.cut(frames.end)
        if _holds(self.path, self._codec, frames, self._tail.content()):
            self._tail.cut(0)
        kept += self._tail.recover(keep_torn_at, self._codec.compress)
        self._end_last_line()
        self._is_in_order = True
        return kept

    def last_line(self) -> bytes:
        """The line that the file ends with, its line break included; empty for an empty file."""
        if self._tail.size:
            return self._tail.last_line()
        frames, _ = self._survey()
        last = b""
        if frames.last_frame is not None:
            with _opened(self.path, self._codec, frames.last_frame, frames.end) as content:
                for line in content:
                    last = line
        return last

    def close(self) -> None:
        """Compress what is left, and close; when the disk refuses that, the tail stays and nothing is lost.

        What a death has left stays as it is unless `recover` put it in order.
        """
        if self._is_in_order:
            self._end_tail()
        self._tail.close()
        self._frames.close()

    def _end_tail(self) -> None:
        try:
            if self._tail.size:
                self._pack()
            disk().remove(self._tail.path)
        except (ConfigError, OSError) as error:
            log.warning("the last rows of %s stay in %s: %s", self.path, self._tail.path, error)

    def _pack(self) -> None:
        self._frames.add(self._codec.compress(self._tail.content()))
        self._tail.cut(0)

    def _survey(self) -> tuple[Frames, bytes]:
        """The whole frames, read to their end, and what stands behind them."""
        frames, error = _survey(self.path, self._codec)
        torn = self._frames.content(frames.end)
        if error is not None and not isinstance(error, EOFError) and torn.strip(b"\0"):
            raise ConfigError(
                f"{self.path} is damaged behind its byte {frames.end}: {error}",
                code="damaged_output",
                remedy="Restore it from a copy, or start anew with +overwrite=true (it is moved aside).",
            ) from error
        return frames, torn

    def _end_last_line(self) -> None:
        """End a whole last row that somebody else compressed without its line break."""
        last = self.last_line()
        if last and not last.endswith(b"\n") and is_object(last):
            self._frames.add(self._codec.compress(b"\n"))


RowsFile: TypeAlias = AppendFile | PackedFile


def append_to(path: Path) -> RowsFile:
    """`path` open for appending, compressed if its name says so. Raises `ConfigError` as those do."""
    codec = codec_of(path)
    return AppendFile(path) if codec is None else PackedFile(path, codec)


def open_packed(path: Path, codec: Codec) -> IO[bytes]:
    """The content of a compressed file, that of its tail included. Raises `compression.DAMAGE` where it is damaged."""
    if not tail_of(path).exists():
        return _opened(path, codec)
    # The writer is at work, or was killed: a frame that is half written is the tail's.
    end, rows = _snapshot(path, codec)
    return io.BufferedReader(_WithTail(_opened(path, codec, 0, end), rows), _READ_BYTES)


def _snapshot(path: Path, codec: Codec) -> tuple[int, bytes]:
    """Where the whole frames end, and the rows that are in none of them, at one moment of a file that may grow."""
    end, rows = 0, _content_of_tail(path)
    latest: Frames | None = None
    while True:
        frames, error = _survey(path, codec, end)
        end, before, rows = frames.end, rows, _content_of_tail(path)
        if error is not None and not (isinstance(error, EOFError) and (before or rows)):
            raise error
        latest = frames if latest is None or frames.last_frame is not None else latest
        if rows.startswith(before):
            return end, b"" if _holds(path, codec, latest, rows) else rows
        # Meanwhile the tail became a frame: it is behind those that were read.


def _content_of_tail(path: Path) -> bytes:
    try:
        return tail_of(path).read_bytes()
    except FileNotFoundError:  # its writer has closed the file
        return b""


class _WithTail(io.RawIOBase):
    """The frames of a file, and then its tail."""

    def __init__(self, frames: IO[bytes], tail: bytes) -> None:
        self._frames = frames
        self._tail = io.BytesIO(tail)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._frames.read(len(buffer)) or self._tail.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._frames.close()
        super().close()


def _opened(path: Path, codec: Codec, start: int = 0, until: int | None = None) -> IO[bytes]:
    file = path.open("rb")
    file.seek(start)
    return io.BufferedReader(Frames(file, codec, until), _READ_BYTES)


def _survey(path: Path, codec: Codec, start: int = 0) -> tuple[Frames, Exception | None]:
    """The frames of a file from byte `start` on, read as far as they can be, and why no farther."""
    with path.open("rb") as file:
        file.seek(start)
        frames = Frames(file, codec)
        try:
            while frames.read(_READ_BYTES):
                pass
        except DAMAGE as error:
            return frames, error
        return frames, None


def _holds(path: Path, codec: Codec, frames: Frames, rows: bytes) -> bool:
    """Whether the last frame holds exactly `rows`: its writer died before it could empty the tail."""
    if frames.last_frame is None or not rows:
        return False
    with _opened(path, codec, frames.last_frame, frames.end) as content:
        return content.read(len(rows) + 1) == rows
