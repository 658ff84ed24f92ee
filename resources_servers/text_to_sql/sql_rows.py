"""Equality of values, rows and tables of query results.

Numbers are equal by value: integers exactly, others within `TOLERANCE`, which is absolute beside an integer. Other
values are equal only within their type: `1` equals `1.0`, but not `'1'`. Null equals only null.

Approximate equality is not transitive, so rounding or sorting is not enough to compare tables without an order: they
are equal when a perfect matching of equal rows exists.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import TypeAlias

Cell: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Cell, ...]
_Like: TypeAlias = tuple[Row, tuple[type, ...]]
"""A key of identical rows, types included: `(1,)` and `(1.0,)` are equal, but not identical."""

TOLERANCE = 1e-6
"""Allowed difference of two numbers that are not both integers, relative (absolute below 1 and beside an integer)."""


def is_same_cell(expected: Cell, given: Cell) -> bool:
    """Return whether two values of a result are equal; null equals only null."""
    if isinstance(expected, int | float) and isinstance(given, int | float):
        if isinstance(expected, int) and isinstance(given, int):
            return expected == given
        if isinstance(expected, int) or isinstance(given, int):
            return abs(expected - given) <= TOLERANCE
        return math.isclose(expected, given, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(expected) is type(given) and expected == given


def is_same_row(expected: Row, given: Row) -> bool:
    """Return whether two rows of equal length are equal, value by value."""
    return all(map(is_same_cell, expected, given))


def are_same_in_order(expected: Sequence[Row], given: Sequence[Row]) -> bool:
    """Return whether two tables of equal length are equal, row by row."""
    return all(map(is_same_row, expected, given))


def are_same_in_any_order(expected: Sequence[Row], given: Sequence[Row]) -> bool:
    """Return whether two tables of equal length have a perfect matching of equal rows."""
    if are_same_in_order(sorted(expected, key=_sort_key), sorted(given, key=_sort_key)):
        return True
    near = _columns_with_reals([*expected, *given])
    if not near:
        return False  # without approximate numbers, sorting has aligned equal rows
    most_telling = max(near, key=lambda column: len({row[column] for row in expected}))
    expected_groups, given_groups = _grouped(expected, near), _grouped(given, near)
    return expected_groups.keys() == given_groups.keys() and all(
        _can_be_paired(rows, given_groups[key], most_telling) for key, rows in expected_groups.items()
    )


def _sort_key(row: Row) -> tuple[tuple[int, object], ...]:
    return tuple(_cell_key(cell) for cell in row)


def _cell_key(cell: Cell) -> tuple[int, object]:
    if cell is None:
        return 0, 0
    if isinstance(cell, int | float):
        return 1, cell
    return (2, cell) if isinstance(cell, str) else (3, cell)


def _columns_with_reals(rows: Sequence[Row]) -> list[int]:
    """Return the columns in which numbers may be equal without being identical."""
    return [column for column, cells in enumerate(zip(*rows, strict=True)) if float in map(type, cells)]


def _grouped(rows: Sequence[Row], near: Sequence[int]) -> dict[Row, Counter[_Like]]:
    """Count identical rows, grouped by the cells that an equal row must have exactly. Numbers in the columns `near`
    count only as numbers."""
    groups: defaultdict[Row, Counter[_Like]] = defaultdict(Counter)
    for row in rows:
        exact = list(row)
        for column in near:
            if isinstance(row[column], int | float):
                exact[column] = 0
        groups[tuple(exact)][row, tuple(map(type, row))] += 1
    return groups


def _can_be_paired(expected: Counter[_Like], given: Counter[_Like], column: int) -> bool:
    """Return whether a perfect matching of equal rows exists, found by augmenting paths.

    The values in `column` narrow the search for candidates.
    """
    if expected.total() != given.total():
        return False
    candidates = _candidates(expected, given, column)
    if not all(candidates.values()):
        return False
    pairing = _Pairing(candidates, given)
    return all(pairing.place(row, count) for row, count in expected.items())


def _candidates(expected: Counter[_Like], given: Counter[_Like], column: int) -> dict[_Like, list[_Like]]:
    """Return the equal given rows of each distinct expected row."""
    ordered = sorted(given, key=lambda like: _cell_key(like[0][column]))
    keys = [_cell_key(like[0][column]) for like in ordered]
    found = {}
    for like in expected:
        least, most = _range_around(like[0][column])
        nearby = ordered[bisect_left(keys, _cell_key(least)) : bisect_right(keys, _cell_key(most))]
        found[like] = [other for other in nearby if is_same_row(like[0], other[0])]
    return found


def _range_around(cell: Cell) -> tuple[Cell, Cell]:
    """Return bounds of all values that are equal to `cell`."""
    if not isinstance(cell, int | float) or math.isinf(cell):
        return cell, cell
    margin = 1.01 * TOLERANCE * max(1.0, abs(cell))
    return cell - margin, cell + margin


class _Pairing:
    """A partial matching of expected and given rows."""

    def __init__(self, candidates: dict[_Like, list[_Like]], given: Counter[_Like]) -> None:
        self._candidates = candidates
        self._free = Counter(given)
        self._held: defaultdict[_Like, Counter[_Like]] = defaultdict(Counter)
        """Given row → the expected rows that it is matched with, and their counts."""

    def place(self, row: _Like, count: int) -> bool:
        """Match `count` more rows identical to `row`, and rematch others if needed. Return False if impossible."""
        while count:
            path = self._path_to_a_free_one(row)
            if path is None:
                return False
            count -= self._move(path, count)
        return True

    def _path_to_a_free_one(self, row: _Like) -> list[tuple[_Like, _Like]] | None:
        """Return an augmenting path of steps (expected, given). Each expected row but the first is currently matched
        with the given row of the step before."""
        came_from: dict[_Like, tuple[_Like, _Like | None]] = {}
        reached: deque[tuple[_Like, _Like | None]] = deque([(row, None)])
        seen = {row}
        while reached:
            asking, through = reached.popleft()
            for other in self._candidates[asking]:
                if other in came_from:
                    continue
                came_from[other] = (asking, through)
                if self._free[other]:
                    return _steps_to(other, came_from)
                for holder, held in self._held[other].items():
                    if held and holder not in seen:
                        seen.add(holder)
                        reached.append((holder, other))
        return None

    def _move(self, path: list[tuple[_Like, _Like]], wanted: int) -> int:
        """Augment the matching along the path at most `wanted` times and return the number of times."""
        gives_up = [(path[step][0], path[step - 1][1]) for step in range(1, len(path))]
        amount = min([wanted, self._free[path[-1][1]], *(self._held[other][row] for row, other in gives_up)])
        for row, other in gives_up:
            self._held[other][row] -= amount
        for row, other in path:
            self._held[other][row] += amount
        self._free[path[-1][1]] -= amount
        return amount


def _steps_to(last: _Like, came_from: dict[_Like, tuple[_Like, _Like | None]]) -> list[tuple[_Like, _Like]]:
    steps = []
    other: _Like | None = last
    while other is not None:
        asking, through = came_from[other]
        steps.append((asking, other))
        other = through
    return steps[::-1]
