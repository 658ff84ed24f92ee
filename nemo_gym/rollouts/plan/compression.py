"""Compressed files of rows, by file ending: `.gz` (RFC 1952) and `.zst`.

Consecutive frames (members in RFC 1952) are read as one file. While a run writes such a file, its rows are in a plain
file beside it, the journal, and readers read the journal.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Protocol, cast

import zstandard

DAMAGE = (EOFError, zlib.error, zstandard.ZstdError)
"""The errors of reading a compressed file that is truncated (`EOFError`) or invalid."""
_READ_BYTES: Final = 1 << 16
_BUFFER_BYTES: Final = 1 << 20
_GZIP_LEVEL: Final = 6
_ZSTANDARD_LEVEL: Final = 3
_GZIP_WINDOW: Final = 31
"""The window size that makes zlib expect a gzip header."""


class Decompressor(Protocol):
    """A decompressor of one frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression format."""

    decompressor: Callable[[], Decompressor]
    writer: Callable[[BinaryIO], Any]
    """Returns a file that compresses its content into the given one, and leaves that open when closed."""


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
"""Codecs by file ending."""


def find_codec(path: Path) -> Codec | None:
    """Return the codec of a file; None for a plain one."""
    return CODECS.get(path.suffix)


def build_journal_path(path: Path) -> Path:
    """Return the plain file that holds all rows of a compressed file while it is being written."""
    return path.with_name(f"{path.name}.journal")


def holds_text(path: Path) -> bool:
    """Return whether a file or its journal exists and is not empty."""
    return any(each.exists() and each.stat().st_size > 0 for each in (path, build_journal_path(path)))


def open_content(path: Path) -> IO[bytes]:
    """Open a file, plain or compressed, for reading decompressed bytes; its journal if that is not empty.

    Reading a damaged compressed file raises one of `DAMAGE`.
    """
    codec = find_codec(path)
    if codec is None:
        return path.open("rb", buffering=_BUFFER_BYTES)
    with suppress(FileNotFoundError):
        journal = build_journal_path(path).open("rb", buffering=_BUFFER_BYTES)
        if os.fstat(journal.fileno()).st_size or not path.exists():
            return journal
        journal.close()
    return io.BufferedReader(Frames(path.open("rb"), codec), _BUFFER_BYTES)


class Frames(io.RawIOBase):
    """A reader of all frames of an open file, which closes the file when closed.

    Reads everything before the damage. Then it raises `EOFError` if the file ends within a frame (the reader of
    `zstandard` treats that as the end), or the format's own error for bytes that are not a frame.
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
                raise EOFError("the file is truncated")
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
