"""The rollouts that a file of rows holds.

Our rows are led by their identity, so the head of each line is read and not parsed: 0.2 s for 100,000 rows, however
long their trajectories. To parse them would take 0.9 to 2 s for rows of 4 KB, and 18 to 90 s for rows of 200 KB, before
a resumed run makes its first attempt. Rows that others wrote are parsed whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.identity import FinishedRollouts, RolloutId, identity_at, identity_in


def read_finished(path: Path) -> FinishedRollouts:
    """The identities of the rows in `path`. Raises `ConfigError` for a row without one, or with another's."""
    finished = FinishedRollouts()
    for number, identity in enumerate(read_identities(path), start=1):
        if not finished.add(identity):
            raise ConfigError(
                f"{path}:{number}: there is an earlier row of {identity}",
                code="duplicate_row",
                remedy="A run keeps one row for each rollout: remove one of the two, or start with +overwrite=true.",
            )
    return finished


class PlacedRow(NamedTuple):
    """A row's identity, and where its line is in the file's content."""

    identity: RolloutId
    start: int
    """Of the first byte."""
    length: int
    """Bytes, without the line break."""


def read_identities(path: Path) -> Iterator[RolloutId]:
    """The identity of every row, in the file's order. Raises `ConfigError` for a file that is damaged."""
    for line in read_lines(path):
        yield identity_of_line(line.content, path, line.number)


def read_places(file: IO[bytes], path: Path) -> Iterator[PlacedRow]:
    """Every row with its place in `file`, the content of `path`. Raises `ConfigError` for a line that is no row."""
    start = 0
    for number, line in enumerate(file, start=1):
        content = line.removesuffix(b"\n")
        yield PlacedRow(identity_of_line(content, path, number), start, len(content))
        start += len(line)


def identity_of_line(line: bytes, path: Path, number: int = 0) -> RolloutId:
    """The identity of a row of `path`. Raises `ConfigError` for a line that is no row."""
    return identity_at(line) or _parse_identity(line, path, number)


def _parse_identity(line: bytes, path: Path, number: int) -> RolloutId:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _not_a_row(path, number, f"is not JSON: {error}") from error
    identity = identity_in(row) if isinstance(row, dict) else None
    if identity is None:
        raise _not_a_row(path, number, "has no `_ng_task_index` and `_ng_rollout_index`")
    return identity


def _not_a_row(path: Path, number: int, problem: str) -> ConfigError:
    return ConfigError(
        f"{path}:{number}: the line {problem}",
        code="damaged_output",
        remedy="Remove the line to have its rollout done again, or start with +overwrite=true.",
    )
