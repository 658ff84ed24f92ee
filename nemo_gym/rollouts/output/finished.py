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
from typing import Any, NamedTuple

import orjson

from nemo_gym.failures import ConfigError, GymError
from nemo_gym.json_objects import object_in, parse_json, parse_object
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import BYTE_ORDER_MARK, opened_plain, read_lines
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rows.identity import FinishedRollouts, RolloutId, identity_at, identity_in
from nemo_gym.rows.keys import TASK_INDEX_KEY
from nemo_gym.rows.numbering import RowIdentities, require_indices
from nemo_gym.rows.timing import read_seconds

_REPEAT = "Remove the line to repeat its rollout, or start with +overwrite=true."
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
        identity = read_line_identity(line.content, path, line.number)
        if not is_planned(identity):
            unplanned += 1
        elif not finished.add(identity):
            raise duplicate_row(path, line.number, identity)
    return StoredRollouts(finished, unplanned)


class RowsOnce:
    """Refuses a second row of a rollout, in each of several files."""

    def __init__(self) -> None:
        self._seen: set[tuple[Path, RolloutId]] = set()

    def add(self, identity: RolloutId, path: Path, number: int) -> None:
        """Note the row of a rollout on line `number` of `path`. Raises `ConfigError`."""
        if (path, identity) in self._seen:
            raise duplicate_row(path, number, identity)
        self._seen.add((path, identity))


def duplicate_row(path: Path, number: int, identity: RolloutId) -> ConfigError:
    """Return the refusal of a second row of a rollout, on line `number`."""
    return ConfigError(
        f"{path}:{number}: duplicate row of {identity}",
        code="duplicate_row",
        remedy="A run has one row per rollout: remove one of the two, or start with +overwrite=true.",
    )


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
    number: int
    """The line, from 1."""


class PlacedRows:
    """A file of rows with the positions of its lines; a missing file has none."""

    def __init__(
        self,
        path: Path,
        *,
        numbers_rows: bool = False,
        may_be_torn: bool = False,
        problems: list[str] | None = None,
    ) -> None:
        """`numbers_rows`: rows without indices, as other programs write them, get those of `RowIdentities`.

        `may_be_torn`: an incomplete last row is left out, as of a run that is running or was killed. Blank lines are
        skipped. Raises `ConfigError` for an invalid line; with `problems`, such a line is left out, and its description
        is added to them.
        """
        self.path = path
        self.places: list[PlacedRow] = []
        self.is_torn = False
        """Whether an incomplete last row was left out."""
        self.unnamed = 0
        """The rows with neither an index nor a request, as `RowIdentities.unnamed`."""
        self._opened = ExitStack()
        if not holds_text(path):
            return
        self._file = self._opened.enter_context(opened_plain(path))
        identities = RowIdentities() if numbers_rows else None
        start = 0
        for number, line in enumerate(self._file, start=1):
            mark = len(BYTE_ORDER_MARK) if number == 1 and line.startswith(BYTE_ORDER_MARK) else 0
            content = line[mark:].removesuffix(b"\n")
            if may_be_torn and is_torn(line[mark:]):
                self.is_torn = True
                if problems is not None:
                    problems.append(f"{path}:{number}: the last row is incomplete")
            elif content and not content.isspace():
                identity = self._identify(content, number, identities, problems)
                if identity is not None:
                    self.places.append(PlacedRow(identity, start + mark, len(content), number))
            start += len(line)
        self.unnamed = identities.unnamed if identities is not None else 0

    def _identify(
        self, line: bytes, number: int, identities: RowIdentities | None, problems: list[str] | None
    ) -> RolloutId | None:
        try:
            identity = read_line_identity(line, self.path, number, identities)
            if problems is not None:
                parse_row(line, self.path, number)
        except GymError as error:
            if problems is None:
                raise
            problems.append(error.failure.message)
            return None
        return identity

    def line(self, place: PlacedRow) -> bytes:
        """Return the bytes of a row, without the line break."""
        return os.pread(self._file.fileno(), place.length, place.start)

    def close(self) -> None:
        self._opened.close()


def is_torn(line: bytes) -> bool:
    """Return whether a line is a row whose writer was stopped, or is still writing it: it has no end."""
    return not line.endswith(b"\n") and not line.isspace() and object_in(line) is None


def parse_row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    """Return the row on line `number` of `path`, with integers of any size. Raises `ConfigError` for a damaged line."""
    try:
        row = parse_json(line)
    except orjson.JSONDecodeError:
        row = parse_object(line)  # with halves of characters
    if isinstance(row, dict):
        return row
    raise ConfigError(f"{path}:{number}: the row is not a JSON object", code="damaged_output", remedy=_REPEAT)


def read_line_identity(
    line: bytes, path: Path, number: int = 0, identities: RowIdentities | None = None
) -> RolloutId:
    """Return the identity of a row of `path`. Raises `ConfigError` for an invalid line.

    `identities` number the rows of a file without indices; without them, such a row is invalid.
    """
    place = f"{path}:{number}"
    if (identity := identity_at(line, place)) is not None:
        return identity if identities is None else identities.note(identity, place)
    row = read_object(line, place, code="damaged_output", remedy=_REPEAT)
    if identities is not None:
        return identities.identify(row, place)
    if (identity := identity_in(row)) is not None:
        return identity
    require_indices(row, place)
    message = f"{place}: the row has no `_ng_task_index` and `_ng_rollout_index`"
    raise ConfigError(message, code="damaged_output", remedy=_REPEAT)
