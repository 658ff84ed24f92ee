"""Task datasets: JSONL files, plain or compressed, read one line at a time.

The file ending decides the compression. A dataset is never held in memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from nemo_gym.failures import ConfigError
from nemo_gym.paths import candidates
from nemo_gym.rollouts.plan.compression import DAMAGE, find_codec, open_content

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The bytes with which some programs begin a file of UTF-8. They belong to no row."""
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A file of task rows and the settings of their rollouts."""

    path: Path
    num_repeats: int = 1
    """Rollouts of each row."""
    agent_name: str | None = None
    """The agent of rows without one."""
    prompt_config: Path | None = None
    """The template that makes each row's input, for datasets without one."""


class Line(NamedTuple):
    """A line that is not blank. `number` counts from 1 and includes blank lines."""

    number: int
    content: bytes


def locate(path: Path) -> Path:
    """Return `path` or the same path below a root. Raises `ConfigError` if neither is a file."""
    for candidate in (path, *candidates(path)):
        if candidate.is_file():
            return candidate
    problem = "is a folder" if path.is_dir() else "does not exist"
    raise ConfigError(
        f"the dataset {path} {problem}",
        code="dataset_missing",
        remedy="Check the path. Each path is that of one JSONL file, without wildcards; .gz and .zst are read too.",
    )


@contextmanager
def opened_plain(path: Path) -> Iterator[BinaryIO]:
    """Yield a seekable file with the decompressed bytes of `path`: the file itself or a temporary copy.

    Raises `ConfigError` if it cannot be read to its end.
    """
    if find_codec(path) is None:
        with path.open("rb") as file:
            yield file
        return
    folder = path.parent if os.access(path.parent, os.W_OK) else None
    with tempfile.TemporaryFile(dir=folder) as copy:
        try:
            with open_content(path) as file:
                shutil.copyfileobj(file, copy, _READ_BYTES)
        except DAMAGE as error:
            raise _build_damaged_error(path, f"byte {copy.tell()} of its content", error) from error
        copy.flush()
        copy.seek(0)
        yield cast(BinaryIO, copy)


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines that are not blank. Raises `ConfigError` if the file cannot be read to its end."""
    number = 0
    try:
        with open_content(path) as file:
            for number, content in enumerate(file, start=1):
                if number == 1:
                    content = content.removeprefix(BYTE_ORDER_MARK)
                if not content.isspace():
                    yield Line(number, content)
    except DAMAGE as error:
        raise _build_damaged_error(path, f"line {number}", error) from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="dataset_unreadable") from error


def _build_damaged_error(path: Path, place: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"{path} is damaged after {place}: {error}",
        code="dataset_damaged",
        remedy="Copy or compress the file again.",
    )
