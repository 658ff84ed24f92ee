"""The rollouts that have a row in a file.

Rows of the gym start with their identity, so only the start of each line is read: 0.2 s for 100,000 rows of any length.
Parsing them would take 0.9 to 2 s for rows of 4 KB and 18 to 90 s for rows of 200 KB before a resumed run makes its
first attempt. Rows from other programs are parsed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import opened_plain, read_lines
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rows.identity import FinishedRollouts, RolloutId, identity_at, identity_in
from nemo_gym.rows.keys import TASK_INDEX_KEY
from nemo_gym.rows.parts import read_seconds

IsPlanned = Callable[[RolloutId], bool]
"""Tells whether a plan has a rollout."""


class StoredRollouts(NamedTuple):
    """The rollouts of a file of rows."""

    finished: FinishedRollouts
    """The planned ones."""
    unplanned: int
    """Number of rows of others."""


def read_finished(path: Path, is_planned: IsPlanned) -> StoredRollouts:
    """Return the rollouts with a row in `path`.

    Raises `ConfigError` for a row without identity, or a second row of a planned rollout.
    """
    finished, unplanned = FinishedRollouts(), 0
    for line in read_lines(path):
        identity = identity_of_line(line.content, path, line.number)
        if not is_planned(identity):
            unplanned += 1
        elif not finished.add(identity):
            raise ConfigError(
                f"{path}:{line.number}: duplicate row of {identity}",
                code="duplicate_row",
                remedy="A run has one row per rollout: remove one of the two, or start with +overwrite=true.",
            )
    return StoredRollouts(finished, unplanned)


def read_durations(path: Path) -> dict[int, float]:
    """Return the longest time in seconds of each task's rollouts in `path`; a row without timing adds nothing."""
    durations: dict[int, float] = {}
    for line in read_lines(path) if holds_text(path) else ():
        row = orjson.loads(line.content)
        seconds = read_seconds(row)
        if seconds is not None:
            task = int(row[TASK_INDEX_KEY])
            durations[task] = max(durations.get(task, 0.0), seconds)
    return durations


class PlacedRow(NamedTuple):
    """The identity of a row and the position of its line."""

    identity: RolloutId
    start: int
    """Offset of the first byte."""
    length: int
    """Bytes, without the line break."""


class PlacedRows:
    """A file of rows with the positions of its lines; a missing file has none."""

    def __init__(self, path: Path, *, numbers_rows: bool = False) -> None:
        """`numbers_rows` is as in `identity_of_line`. Raises `ConfigError` for an invalid line."""
        self.path = path
        self.places: list[PlacedRow] = []
        self._opened = ExitStack()
        if holds_text(path):
            self._file = self._opened.enter_context(opened_plain(path))
            start = 0
            for number, line in enumerate(self._file, start=1):
                content = line.removesuffix(b"\n")
                identity = identity_of_line(content, path, number, numbers_rows=numbers_rows)
                self.places.append(PlacedRow(identity, start, len(content)))
                start += len(line)

    def line(self, place: PlacedRow) -> bytes:
        """Return the bytes of a row, without the line break."""
        return os.pread(self._file.fileno(), place.length, place.start)

    def close(self) -> None:
        self._opened.close()


def identity_of_line(line: bytes, path: Path, number: int = 0, *, numbers_rows: bool = False) -> RolloutId:
    """Return the identity of a row of `path`. Raises `ConfigError` for an invalid line.

    With `numbers_rows`, a row without any identity, as other programs write it, gets that of its line: `number` from 1.
    """
    place = f"{path}:{number}"
    if (identity := identity_at(line, place)) is not None:
        return identity
    remedy = "Remove the line to repeat its rollout, or start with +overwrite=true."
    row = read_object(line, place, code="damaged_output", remedy=remedy)
    if (identity := identity_in(row)) is not None:
        return identity
    if numbers_rows and TASK_INDEX_KEY not in row:
        return RolloutId(number - 1, 0)
    message = f"{place}: the row has no `_ng_task_index` and `_ng_rollout_index`"
    raise ConfigError(message, code="damaged_output", remedy=remedy)
