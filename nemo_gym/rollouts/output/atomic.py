"""Files that are replaced whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.disk import disk
from nemo_gym.rollouts.plan.compression import build_journal_path, find_codec

_BUFFER_BYTES: Final = 1 << 20


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` if the block succeeds; otherwise `path` is unchanged.

    The content is compressed if the name of `path` ends in `.gz` or `.zst`. It is synced before the rename, and a
    journal of `path` is removed after it, so a crash or a power cut leaves the old file or the new one.

    Raises `ConfigError` if the file can't be written.
    """
    draft, codec = path.with_name(f".{path.name}.draft"), find_codec(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _drafted(draft) as plain, codec.writer(plain) if codec else nullcontext(plain) as file:
            yield file
        disk().rename(draft, path)
        if codec is not None:
            disk().remove(build_journal_path(path))
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", code="output_unwritable", remedy="Choose another path."
        ) from error


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Replace `path` by `content`, whole or in pieces. Raises `ConfigError` if it can't be written."""
    with replacing(path) as file:
        for piece in (content,) if isinstance(content, bytes) else content:
            file.write(piece)


@contextmanager
def _drafted(draft: Path) -> Iterator[BinaryIO]:
    """Yield a file that is synced if the block succeeds, and removed if it fails."""
    raw = _Draft(disk().open_to_replace(draft), "wb", closefd=False)
    try:
        with raw:
            file = io.BufferedWriter(raw, _BUFFER_BYTES)
            yield file
            file.flush()
            raw.sync()
    except BaseException:
        disk().remove(draft)
        raise


class _Draft(io.FileIO):
    """A file whose writes, syncs and end are those of `disk()`."""

    def write(self, data: Any) -> int:
        return disk().write(self.fileno(), data)

    def sync(self) -> None:
        disk().sync(self.fileno())

    def close(self) -> None:
        if not self.closed:
            descriptor = self.fileno()
            super().close()
            disk().close(descriptor)
