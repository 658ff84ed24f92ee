"""Compressed files as a row of frames, by the ending of the name: `.gz` (RFC 1952 calls them members) and `.zst`.

A frame is compressed by itself, and frames that stand one behind the other are one file to every tool that knows the
format. So such a file can grow at its end, and what is before a torn end can be read.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

import zstandard

DAMAGE = (EOFError, zlib.error, zstandard.ZstdError)
"""What reading a compressed file raises where it was cut off (`EOFError`) or is no such file."""
_READ_BYTES: Final = 1 << 16
_GZIP_LEVEL: Final = 6
_ZSTANDARD_LEVEL: Final = 3
_GZIP_WINDOW: Final = 31
"""What tells zlib to expect the header of a gzip member."""


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

    compress: Callable[[bytes], bytes]
    """The content as one frame. Equal contents make equal frames."""
    decompressor: Callable[[], Decompressor]
    writer: Callable[[BinaryIO], Any]
    """A file to write plain content to, which compresses it into the one given, and leaves that open when closed."""


def _gzip_frame(content: bytes) -> bytes:
    return gzip.compress(content, _GZIP_LEVEL, mtime=0)


def _zstandard_frame(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=_ZSTANDARD_LEVEL, write_checksum=True).compress(content)


CODECS: Mapping[str, Codec] = {
    ".gz": Codec(
        _gzip_frame,
        lambda: zlib.decompressobj(_GZIP_WINDOW),
        lambda file: gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0),
    ),
    ".zst": Codec(
        _zstandard_frame,
        lambda: cast(Decompressor, zstandard.ZstdDecompressor().decompressobj()),
        lambda file: zstandard.ZstdCompressor(level=_ZSTANDARD_LEVEL, write_checksum=True).stream_writer(
            file, closefd=False
        ),
    ),
}
"""By the ending of the name."""


def codec_of(path: Path) -> Codec | None:
    """How a file of that name is compressed; None for a plain one."""
    return CODECS.get(path.suffix)


@contextmanager
def compressing(file: BinaryIO, codec: Codec | None) -> Iterator[BinaryIO]:
    """A file whose content arrives compressed in `file`; without a codec, `file` itself."""
    if codec is None:
        yield file
        return
    with codec.writer(file) as writer:
        yield writer


class Frames(io.RawIOBase):
    """The content of the frames of an open file, from where it stands to byte `until`; closes it when closed.

    Raises `EOFError` where the file ends within a frame, and what the format's library raises for bytes that are no
    frame.
    """

    def __init__(self, file: BinaryIO, codec: Codec, until: int | None = None) -> None:
        self._file = file
        self._codec = codec
        self._until = until
        self._frame = codec.decompressor()
        self._compressed = b""
        self._ready = memoryview(b"")
        self._inside_frame = False
        self._read_to = file.tell()
        self.last_frame: int | None = None
        """Where in the file the last frame that was read whole begins; None before there is one."""
        self.end = self._read_to
        """Where that frame ends."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            compressed = self._compressed or self._read_more()
            if not compressed and self._inside_frame:
                raise EOFError("the file was cut off")
            if not compressed:
                return 0
            self._decompress(compressed)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _read_more(self) -> bytes:
        most = _READ_BYTES if self._until is None else min(_READ_BYTES, self._until - self._read_to)
        data = self._file.read(most)
        self._read_to += len(data)
        return data

    def _decompress(self, compressed: bytes) -> None:
        self._ready = memoryview(self._frame.decompress(compressed))
        self._compressed = self._frame.unused_data
        self._inside_frame = not self._frame.eof
        if self._frame.eof:
            self.last_frame, self.end = self.end, self._read_to - len(self._compressed)
            self._frame = self._codec.decompressor()

    def close(self) -> None:
        self._file.close()
        super().close()
