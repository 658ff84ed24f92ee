"""The failures of a run, grouped by class and place in the code, each with examples."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from nemo_gym.failures import Boundary, ConfigError, Failure
from nemo_gym.json_objects import object_in
from nemo_gym.rollouts.plan.dataset import BYTE_ORDER_MARK
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_in
from nemo_gym.rows.tool_errors import CHANGING_NUMBERS
from nemo_gym.rows.verdict import describe_failure, read_failure_class
from nemo_gym.rows.version import require_readable

_MOST_GROUPS = 100
"""Further groups are counted in one of their class."""
_MOST_CLASSES = 100
"""So many of those. Failures of further classes are counted in one group, because rows may hold any class."""
FURTHER_CLASSES = "(further classes)"
"""The class of that group."""
RowPlace: TypeAlias = tuple[int, int]
"""The start of a row in its decompressed file, and its bytes with the line break."""
_DIFFERENCES = re.compile(CHANGING_NUMBERS)
_SHOWN = 5
_EXAMPLES = 20
_MESSAGE_CHARS = 300


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures of one class with one cause and one server."""

    failure_class: str
    count: int
    message: str
    """Of the example; it starts with the root cause."""
    task: int
    rollout: int
    """The example: the indices of its row."""
    place: str | None = None
    """`file:line` of the author's code that raised, if it did."""
    server: str | None = None
    """The server or URL that failed."""
    remedy: str | None = None
    may_pass: bool = False
    """True if another attempt may succeed without a change."""
    rows: tuple[RowPlace, ...] = ()
    """The first rows in the file of failures, if the failures were read from it."""
    settled: int = 0
    """Failures read from that file whose rollout has a row by now: it was attempted again."""

    def lines(self, logs: Path | None = None) -> Iterator[str]:
        """Yield the text for a person. `logs` is the folder with a log for each server."""
        yield f"{self.count:,} × {self.failure_class}"
        yield f"    {_shorten(self.message)}"
        log = logs / f"{self.server}.log" if logs is not None and self.server else None
        details = (
            f"raised at {self.place}" if self.place else None,
            f"for example task {self.task}, rollout {self.rollout}",
            f"log: {log}" if log is not None and log.is_file() else None,
        )
        yield from (f"    {detail}" for detail in details if detail)
        if self.remedy:
            yield f"    -> {self.remedy}"

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in ("rows", "settled")}


class FailureGroups:
    """Groups failures as they come."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], FailureGroup] = {}

    def note(
        self,
        identity: RolloutId,
        failure_class: str,
        failure: Failure,
        place: RowPlace | None = None,
        *,
        is_settled: bool = False,
    ) -> None:
        """Add the failure of a rollout. `place` is that of its row; `is_settled`: the rollout has a scored one."""
        key = _build_key(failure_class, failure)
        if key not in self._groups and len(self._groups) >= _MOST_GROUPS:
            key = (failure_class, "", "")
            if key not in self._groups and len(self._groups) >= _MOST_GROUPS + _MOST_CLASSES:
                failure_class = FURTHER_CLASSES
                key = (failure_class, "", "")
        group = self._groups.get(key) or _new_group(identity, failure_class, failure)
        rows = (*group.rows, place) if place is not None and len(group.rows) < _EXAMPLES else group.rows
        settled = group.settled + is_settled
        self._groups[key] = replace(group, count=group.count + 1, rows=rows, settled=settled)

    def take_back(self, failure_class: str, failure: Failure) -> None:
        """Forget one failure. The example of its group stays while the group has others."""
        keys = _build_key(failure_class, failure), (failure_class, "", ""), (FURTHER_CLASSES, "", "")
        key = next(each for each in keys if each in self._groups)
        group = self._groups[key] = replace(self._groups[key], count=self._groups[key].count - 1)
        if not group.count:
            del self._groups[key]

    def note_row(
        self, identity: RolloutId, row: AnyRow, place: RowPlace | None = None, *, is_settled: bool = False
    ) -> None:
        """Add a stored failure row. `place`, `is_settled`: as for `note`."""
        try:
            require_readable(row, f"the row of {identity}")
        except ConfigError as error:
            self.note(identity, error.failure.kind, error.failure, place, is_settled=is_settled)
            return
        failure = describe_failure(row)
        failure_class = read_failure_class(row) or failure.code
        self.note(identity, failure_class, failure, place, is_settled=is_settled)

    def rank_groups(self) -> list[FailureGroup]:
        """Return the groups, the largest first."""
        return sorted(self._groups.values(), key=lambda group: (-group.count, group.task, group.rollout))


def _build_key(failure_class: str, failure: Failure) -> tuple[str, str, str]:
    cause = failure.place or _DIFFERENCES.sub("#", failure.message)
    return failure_class, cause, str(failure.peer)


def group_file(path: Path, scored: Container[RolloutId] = ()) -> list[FailureGroup]:
    """Return the groups of all failed attempts in a plain file, the largest first, with the places of their rows.

    `scored`: the rollouts that have a row.
    """
    groups, start = FailureGroups(), 0
    with path.open("rb") as file:
        for line in file:
            row = object_in(line.removeprefix(BYTE_ORDER_MARK)) or {}
            identity = identity_in(row)
            is_settled = identity is not None and identity in scored
            place = (start, len(line))
            groups.note_row(identity or RolloutId(-1, 0), row, place, is_settled=is_settled)
            start += len(line)
    return groups.rank_groups()


def _new_group(identity: RolloutId, failure_class: str, failure: Failure) -> FailureGroup:
    return FailureGroup(
        failure_class,
        0,
        failure.message,
        *identity,
        place=failure.place,
        server=failure.peer,
        remedy=failure.remedy,
        may_pass=failure.retryable or failure.boundary is Boundary.CANCELLED,
    )


def failure_lines(
    groups: Sequence[FailureGroup], logs: Path | None, shown: int | None = _SHOWN
) -> Iterator[str]:
    """Yield the text of the largest groups for a person; None for all."""
    for group in groups[:shown]:
        yield from group.lines(logs)
    hidden = groups[len(groups[:shown]) :]
    if hidden:
        yield f"… and {sum(group.count for group in hidden):,} failures of {len(hidden)} other kinds"


def _shorten(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= _MESSAGE_CHARS else f"{text[:_MESSAGE_CHARS]}…"
