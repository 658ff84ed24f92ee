"""When two values, rows and tables of a query's result are equal.

Numbers are equal by value, integers exactly, others within `TOLERANCE`; other values are equal only within their type:
`1` is `1.0`, and not `'1'`. Null equals null alone.

Being nearly equal is not transitive, so tables without an order are not compared by rounding or sorting alone: they
are equal where their rows can be paired so that the rows of each pair are equal.
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
"""Rows that are the same, types included: `(1,)` is like `(1,)` and not like `(1.0,)`, to which it is equal."""

TOLERANCE = 1e-6
"""How far numbers that aren't both integers may be off, relatively (absolutely below 1)."""


def is_same_cell(expected: Cell, given: Cell) -> bool:
    """Whether two values of a result are equal; null is equal to null alone."""
    if isinstance(expected, int | float) and isinstance(given, int | float):
        if isinstance(expected, int) and isinstance(given, int):
            return expected == given
        return math.isclose(expected, given, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(expected) is type(given) and expected == given


def is_same_row(expected: Row, given: Row) -> bool:
    """Whether two rows of equally many values are equal, value by value."""
    return all(map(is_same_cell, expected, given))


def are_same_in_order(expected: Sequence[Row], given: Sequence[Row]) -> bool:
    """Whether two equally long tables are equal, row by row."""
    return all(map(is_same_row, expected, given))


def are_same_in_any_order(expected: Sequence[Row], given: Sequence[Row]) -> bool:
    """Whether the rows of two equally long tables can be paired so that each pair is equal."""
    if are_same_in_order(sorted(expected, key=_sort_key), sorted(given, key=_sort_key)):
        return True
    near = _columns_with_reals([*expected, *given])
    if not near:
        return False  # then sorting brings equal rows together, and they aren't equal
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
    """The columns in which numbers may be equal without being the same."""
    return [column for column, cells in enumerate(zip(*rows, strict=True)) if float in map(type, cells)]


def _grouped(rows: Sequence[Row], near: Sequence[int]) -> dict[Row, Counter[_Like]]:
    """The rows, and how often each occurs, by what their counterparts must have exactly: all but the numbers in the
    columns `near`, of which only counts that they are there."""
    groups: defaultdict[Row, Counter[_Like]] = defaultdict(Counter)
    for row in rows:
        exact = list(row)
        for column in near:
            if isinstance(row[column], int | float):
                exact[column] = 0
        groups[tuple(exact)][row, tuple(map(type, row))] += 1
    return groups


def _can_be_paired(expected: Counter[_Like], given: Counter[_Like], column: int) -> bool:
    """Whether there is a perfect pairing of equal rows: a flow from rows to rows, grown along augmenting paths.

    The search for counterparts is narrowed by the values in `column`.
    """
    if expected.total() != given.total():
        return False
    candidates = _candidates(expected, given, column)
    if not all(candidates.values()):
        return False
    pairing = _Pairing(candidates, given)
    return all(pairing.place(row, count) for row, count in expected.items())


def _candidates(expected: Counter[_Like], given: Counter[_Like], column: int) -> dict[_Like, list[_Like]]:
    """For each distinct expected row the given rows that are equal to it."""
    ordered = sorted(given, key=lambda like: _cell_key(like[0][column]))
    keys = [_cell_key(like[0][column]) for like in ordered]
    found = {}
    for like in expected:
        least, most = _range_around(like[0][column])
        nearby = ordered[bisect_left(keys, _cell_key(least)) : bisect_right(keys, _cell_key(most))]
        found[like] = [other for other in nearby if is_same_row(like[0], other[0])]
    return found


def _range_around(cell: Cell) -> tuple[Cell, Cell]:
    """Between which values everything lies that is equal to `cell`."""
    if not isinstance(cell, int | float) or math.isinf(cell):
        return cell, cell
    margin = 1.01 * TOLERANCE * max(1.0, abs(cell))
    return cell - margin, cell + margin


class _Pairing:
    """Which given rows stand for which expected ones, so far."""

    def __init__(self, candidates: dict[_Like, list[_Like]], given: Counter[_Like]) -> None:
        self._candidates = candidates
        self._free = Counter(given)
        self._held: defaultdict[_Like, Counter[_Like]] = defaultdict(Counter)
        """Given row → the expected rows that it stands for, and how often."""

    def place(self, row: _Like, count: int) -> bool:
        """Find counterparts for `count` more rows like `row`, moving others where that helps."""
        while count:
            path = self._path_to_a_free_one(row)
            if path is None:
                return False
            count -= self._move(path, count)
        return True

    def _path_to_a_free_one(self, row: _Like) -> list[tuple[_Like, _Like]] | None:
        """Steps (expected, given), of which each expected row but the first is now held by the step before."""
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
        """Pair along the path as often as it bears, at most `wanted` times; how often."""
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
