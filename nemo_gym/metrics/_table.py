"""The mergeable store of a run's records: one packed column per number, eight bytes per value.

Adding and merging append records. Before reading, the table is sorted by task and rollout, and superseded attempts are
dropped. Its content is then independent of the order of arrival and of the shards.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, compress, pairwise
from typing import NamedTuple, TypeVar

from nemo_gym.failures import InputError
from nemo_gym.metrics.records import ANSWER_FAULTS, RolloutRecord
from nemo_gym.rows.keys import ROLLOUT_INDEX_KEY
from nemo_gym.rows.tool_errors import INVALID_TOOL_CALLS, TOOL_ERRORS

_ZERO_IF_MISSING = frozenset({TOOL_ERRORS, INVALID_TOOL_CALLS, ANSWER_FAULTS})
"""Numbers that only rows with a failed tool call have."""
T = TypeVar("T", int, float)


class TaskPlaces(NamedTuple):
    """The positions of one task's records in the table, in order of the rollout index."""

    task: int
    places: range


class RecordTable:
    """Records in columns. A place is a record's position; columns hold NaN for missing numbers.

    Places refer to the sorted table, and are valid until the next record is added.
    """

    def __init__(self) -> None:
        self._tasks = array("q")
        self._rollouts = array("q")
        self._attempts = array("q")
        self._is_scored = array("b")
        self._outcomes: list[str] = []
        self._failures: list[str | None] = []
        self._answers: list[str | None] = []
        self._columns: dict[str, array[float]] = {}
        self._bounds: array[int] | None = None
        """The start of each task's records, and the end; None while the table is unsorted."""

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def names(self) -> list[str]:
        """The sorted names of all numbers."""
        return sorted(self._columns)

    def append(self, record: RolloutRecord) -> None:
        measurements, columns = record.measurements, self._columns
        for name in measurements.keys() - columns.keys():
            columns[name] = _build_missing(len(self))
        for name, column in columns.items():
            column.append(measurements.get(name, math.nan))
        self._tasks.append(record.task)
        self._rollouts.append(record.rollout)
        self._attempts.append(record.attempt)
        self._is_scored.append(record.is_scored)
        # Outcomes, failures and answers repeat, so they are interned.
        self._outcomes.append(sys.intern(record.outcome))
        self._failures.append(_intern(record.failure))
        self._answers.append(_intern(record.answer))
        self._bounds = None

    def extend(self, other: RecordTable) -> None:
        """Append all records of `other`."""
        for name in other._columns.keys() - self._columns.keys():
            self._columns[name] = _build_missing(len(self))
        for name, column in self._columns.items():
            theirs = other._columns.get(name)
            column.extend(_build_missing(len(other)) if theirs is None else theirs)
        self._tasks.extend(other._tasks)
        self._rollouts.extend(other._rollouts)
        self._attempts.extend(other._attempts)
        self._is_scored.extend(other._is_scored)
        self._outcomes.extend(other._outcomes)
        self._failures.extend(other._failures)
        self._answers.extend(other._answers)
        self._bounds = None

    def tasks(self) -> Iterator[TaskPlaces]:
        """Iterate over the tasks in order of their index, with one place per rollout.

        Of several attempts at a rollout, the scored one counts, or else the last one.

        Raises:
            InputError: two records of one rollout are scored.
        """
        for start, end in pairwise(self._sort()):
            yield TaskPlaces(self._tasks[start], range(start, end))

    def outcomes(self) -> Counter[str]:
        """Return the number of rollouts by outcome. Raises InputError like `tasks`."""
        self._sort()
        return Counter(self._outcomes)

    def failures(self) -> Counter[str]:
        """Return the number of failed rollouts by failure class. Raises InputError like `tasks`."""
        self._sort()
        return Counter(failure for failure in self._failures if failure is not None)

    def values(self, name: str, places: Sequence[int]) -> list[float]:
        """Return the numbers `name` of the records at `places`, without missing ones.

        A scored record without failed tool calls has 0 of them.
        """
        column = _take(self._columns[name], places)
        if name in _ZERO_IF_MISSING:
            scored = _take(self._is_scored, places)
            return [
                0.0 if math.isnan(value) else value
                for value, counts in zip(column, scored, strict=True)
                if counts
            ]
        return [value for value in column if not math.isnan(value)]

    def scored_by_repeat(self) -> dict[int, list[int]]:
        """Return the places of the scored records by rollout index, smallest first. Raises InputError like `tasks`."""
        self._sort()
        by_repeat: defaultdict[int, list[int]] = defaultdict(list)
        for place in compress(range(len(self)), self._is_scored):
            by_repeat[self._rollouts[place]].append(place)
        return dict(sorted(by_repeat.items()))

    def places_with(self, name: str, places: range) -> list[int]:
        """Return the places whose record has the number `name`."""
        column = self._columns.get(name)
        return [] if column is None else [place for place in places if not math.isnan(column[place])]

    def count_scored(self, places: range) -> int:
        """Return the number of scored records at `places`."""
        return sum(_take(self._is_scored, places))

    def rollout(self, place: int) -> int:
        return self._rollouts[place]

    def answer(self, place: int) -> str | None:
        return self._answers[place]

    def _sort(self) -> array[int]:
        """Sort the table if necessary, and return the bounds of its tasks."""
        if self._bounds is None:
            self._keep(self._choose_places())
            tasks = self._tasks
            starts = (place for place in range(len(tasks)) if not place or tasks[place] != tasks[place - 1])
            self._bounds = array("q", chain(starts, (len(tasks),)))
        return self._bounds

    def _keep(self, kept: list[int]) -> None:
        """Keep only the records at `kept`, in that order."""
        self._tasks = _pick(self._tasks, kept)
        self._rollouts = _pick(self._rollouts, kept)
        self._attempts = _pick(self._attempts, kept)
        self._is_scored = _pick(self._is_scored, kept)
        self._outcomes = [self._outcomes[place] for place in kept]
        self._failures = [self._failures[place] for place in kept]
        self._answers = [self._answers[place] for place in kept]
        for name, column in self._columns.items():
            self._columns[name] = _pick(column, kept)

    def _choose_places(self) -> list[int]:
        # Stable sorts, most significant key last, avoid a tuple per record. The failure breaks ties between equal
        # attempts, so the choice does not depend on the order of arrival.
        order = sorted(range(len(self)), key=lambda place: self._failures[place] or "")
        for column in (self._attempts, self._is_scored, self._rollouts, self._tasks):
            order.sort(key=column.__getitem__)
        kept: list[int] = []
        for place in order:
            if kept and self._is_same_rollout(kept[-1], place):
                self._refuse_second_score(kept.pop(), place)
            kept.append(place)
        return kept

    def _is_same_rollout(self, one: int, other: int) -> bool:
        return self._tasks[one] == self._tasks[other] and self._rollouts[one] == self._rollouts[other]

    def _refuse_second_score(self, earlier: int, later: int) -> None:
        if self._is_scored[earlier] and self._is_scored[later]:
            raise InputError(
                f"task {self._tasks[later]} has two scored rows for rollout {self._rollouts[later]}",
                code="duplicate_rollout",
                param=ROLLOUT_INDEX_KEY,
                remedy="Pass every rollout's row once: a file was probably added twice, or shards overlap.",
            )


def _build_missing(count: int) -> array[float]:
    return array("d", [math.nan]) * count


def _take(column: array[T], places: Sequence[int]) -> Sequence[T]:
    if isinstance(places, range):
        return column[places.start : places.stop]
    return [column[place] for place in places]


def _pick(column: array[T], places: list[int]) -> array[T]:
    return array(column.typecode, map(column.__getitem__, places))


def _intern(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)
