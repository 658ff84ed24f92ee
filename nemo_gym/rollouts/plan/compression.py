"""Compressed files of rows, by the ending of the name: `.gz` (RFC 1952) and `.zst`.

Frames (RFC 1952 calls them members) that stand one behind the other are one file, as for every tool that knows the
format. While a run writes such a file, its rows are in a plain file beside it, the journal, and readers read that.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Protocol, cast

import zstandard

DAMAGE = (EOFError, zlib.error, zstandard.ZstdError)
"""The errors of reading a compressed file that was cut off (`EOFError`) or is no such file."""
_READ_BYTES: Final = 1 << 16
_BUFFER_BYTES: Final = 1 << 20
_GZIP_LEVEL: Final = 6
_ZSTANDARD_LEVEL: Final = 3
_GZIP_WINDOW: Final = 31
"""Makes zlib expect the header of a gzip member."""


class Decompressor(Protocol):
    """Reads one frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to compress."""

    decompressor: Callable[[], Decompressor]
    writer: Callable[[BinaryIO], Any]
    """A file to write plain content to, which compresses it into the one given, and leaves that open when closed."""


CODECS: Mapping[str, Codec] = {
    ".gz": Codec(
        lambda: zlib.decompressobj(_GZIP_WINDOW),
        lambda file: gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0),
    ),
    ".zst": Codec(
        lambda: cast(Decompressor, zstandard.ZstdDecompressor().decompressobj()),
        lambda file: zstandard.ZstdCompressor(level=_ZSTANDARD_LEVEL, write_checksum=True).stream_writer(
            file, closefd=False
        ),
    ),
}
"""By the ending of the name."""


def codec_of(path: Path) -> Codec | None:
    """The compression of a file of that name; None for a plain one."""
    return CODECS.get(path.suffix)


def journal_of(path: Path) -> Path:
    """The plain file that holds all rows of a compressed one while it is being written."""
    return path.with_name(f"{path.name}.journal")


def holds_text(path: Path) -> bool:
    """Whether a file, or the journal of one, is there and not empty."""
    return any(each.exists() and each.stat().st_size > 0 for each in (path, journal_of(path)))


def open_content(path: Path) -> IO[bytes]:
    """The decompressed bytes of a file, plain or compressed; those of its journal while that is not empty.

    Reading raises one of `DAMAGE` where a compressed file is damaged.
    """
    codec = codec_of(path)
    if codec is None:
        return path.open("rb", buffering=_BUFFER_BYTES)
    try:
        journal = journal_of(path).open("rb", buffering=_BUFFER_BYTES)
    except FileNotFoundError:
        return io.BufferedReader(Frames(path.open("rb"), codec), _BUFFER_BYTES)
    if os.fstat(journal.fileno()).st_size or not path.exists():
        return journal
    journal.close()
    return io.BufferedReader(Frames(path.open("rb"), codec), _BUFFER_BYTES)


@contextmanager
def compressing(file: BinaryIO, codec: Codec | None) -> Iterator[BinaryIO]:
    """A file whose content arrives compressed in `file`; without a codec, `file` itself."""
    if codec is None:
        yield file
        return
    with codec.writer(file) as writer:
        yield writer


class Frames(io.RawIOBase):
    """The content of all frames of an open file; closes the file when closed.

    Everything before the damage is read. Then it raises `EOFError` where the file ends within a frame, which the
    reader of `zstandard` takes for the end, and the format's own error for bytes that are no frame.
    """

    def __init__(self, file: BinaryIO, codec: Codec) -> None:
        self._file = file
        self._codec = codec
        self._frame = codec.decompressor()
        self._compressed = b""
        self._ready = memoryview(b"")
        self._inside_frame = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            compressed = self._compressed or self._file.read(_READ_BYTES)
            if not compressed and self._inside_frame:
                raise EOFError("the file was cut off")
            if not compressed:
                return 0
            self._decompress(compressed)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, compressed: bytes) -> None:
        self._ready = memoryview(self._frame.decompress(compressed))
        self._compressed = self._frame.unused_data
        self._inside_frame = not self._frame.eof
        if self._frame.eof:
            self._frame = self._codec.decompressor()

    def close(self) -> None:
        self._file.close()
        super().close()
