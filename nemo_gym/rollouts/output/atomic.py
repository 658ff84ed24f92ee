"""Files that are made whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.disk import disk
from nemo_gym.rollouts.plan.compression import codec_of, compressing, journal_of

_BUFFER_BYTES: Final = 1 << 20


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well; when it does not, `path` is as it was.

    Its content is compressed when the name of `path` ends in `.gz` or `.zst`. It is on the disk before it takes the
    place, and a journal of `path` is removed after that: a death or a power cut leaves the old file or the new one.

    Raises `ConfigError` where it can't be written.
    """
    draft, codec = path.with_name(f".{path.name}.draft"), codec_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _drafted(draft) as plain, compressing(plain, codec) as file:
            yield file
        disk().rename(draft, path)
        if codec is not None:
            disk().remove(journal_of(path))
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", code="output_unwritable", remedy="Choose another path."
        ) from error


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Replace `path` by `content`, given as one or in pieces. Raises `ConfigError` where it can't be written."""
    with replacing(path) as file:
        for piece in (content,) if isinstance(content, bytes) else content:
            file.write(piece)


@contextmanager
def _drafted(draft: Path) -> Iterator[BinaryIO]:
    """A file whose content is on the disk when the block has ended well, and that is gone when it has not."""
    raw = _Draft(disk().open_to_replace(draft))
    try:
        with raw:
            file = io.BufferedWriter(raw, _BUFFER_BYTES)
            yield file
            file.flush()
            raw.sync()
    except BaseException:
        disk().remove(draft)
        raise


class _Draft(io.RawIOBase):
    """An open file of `disk()`, to write to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        count = disk().write(self._descriptor, data)
        self._size += count
        return count

    def tell(self) -> int:
        return self._size

    def sync(self) -> None:
        disk().sync(self._descriptor)

    def close(self) -> None:
        if not self.closed:
            super().close()
            disk().close(self._descriptor)
