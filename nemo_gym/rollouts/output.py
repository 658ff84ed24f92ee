"""Files that are made whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.compression import codec_of, compressing
from nemo_gym.rollouts.packed_file import tail_of


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well; when it does not, `path` is as it was.

    What is written into it is compressed when the name of `path` ends in `.gz` or `.zst`.

    Raises `ConfigError` where it can't be written.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as plain:
            try:
                with compressing(plain, codec_of(path)) as file:
                    yield file
            except BaseException:
                draft.unlink()
                raise
        tail_of(path).unlink(missing_ok=True)  # what a writer of the file that was here had left
        draft.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", code="output_unwritable", remedy="Choose another path."
        ) from error
