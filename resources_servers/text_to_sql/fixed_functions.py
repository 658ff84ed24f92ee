"""Functions of SQLite whose values would depend on the clock or on chance, with fixed values.

The same query must have the same result at every verification, and the gold query and the answer must see the same
database, which may be built with `DEFAULT CURRENT_TIMESTAMP` or `random()`. So the time is `NOW` for the databases and
the queries, local time is UTC, and `random` and `randomblob` give the same values for each database. A query that calls
these two is no answer: `Chance.was_asked` tells.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

Value: TypeAlias = int | float | str | bytes | None

NOW = "2025-01-01 12:00:00"
"""The time of every query, in UTC."""
_TIME_VALUES = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
"""The functions of the clock, and the place of their time value, which is the present time where it is missing."""
_KEYWORDS = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}
_PRESENT = {"now": (), "subsec": ("subsec",), "subsecond": ("subsec",)}
_ZONES = frozenset({"localtime", "utc"})
_MOST_BYTES = 1 << 20


class Chance:
    """A source of random values that are the same for each database."""

    def __init__(self) -> None:
        self._source = random.Random(0)
        self.was_asked = False

    def draw_integer(self) -> int:
        """Return the next value of `random()`."""
        self.was_asked = True
        return self._source.getrandbits(64) - (1 << 63)

    def draw_bytes(self, size: Value) -> bytes:
        """Return the next value of `randomblob(size)`."""
        self.was_asked = True
        return self._source.randbytes(max(1, min(int(size or 0), _MOST_BYTES)))


def fix_functions(database: sqlite3.Connection) -> Chance:
    """Replace the functions in `database`, and return its source of random values."""
    for name, place in _TIME_VALUES.items():
        database.create_function(name, -1, _fix_clock(name, place), deterministic=True)
    if sqlite3.sqlite_version_info >= (3, 43):
        database.create_function("timediff", 2, _fix_difference, deterministic=True)
    for keyword, name in _KEYWORDS.items():
        database.create_function(keyword, 0, _fix_clock(name, 0), deterministic=True)
    chance = Chance()
    database.create_function("random", 0, chance.draw_integer)
    database.create_function("randomblob", 1, chance.draw_bytes)
    return chance


def _fix_clock(name: str, place: int) -> Callable[..., Value]:
    def call(*values: Value) -> Value:
        if len(values) < place:
            raise ValueError("it lacks a format")
        before, time, modifiers = values[:place], values[place : place + 1] or ("now",), values[place + 1 :]
        present = _PRESENT.get(_read_word(time[0]))
        fixed = time if present is None else (NOW, *present)
        others = (other for other in modifiers if _read_word(other) not in _ZONES)
        return _evaluate(name, *before, *fixed, *others)

    return call


def _fix_difference(left: Value, right: Value) -> Value:
    fixed = (NOW if _read_word(time) in _PRESENT else time for time in (left, right))
    return _evaluate("timediff", *fixed)


def _read_word(value: Value) -> str:
    """Return a value as SQLite reads a word: a blob is a text, a text ends at its first NUL, and case is ignored."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text.partition("\0")[0].lower()


def _evaluate(name: str, *values: Value) -> Value:
    """Return the value of one of SQLite's own functions."""
    marks = ", ".join("?" * len(values))
    (value,) = _open_original().execute(f"SELECT {name}({marks})", values).fetchone()
    result: Value = value
    return result


@cache
def _open_original() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", check_same_thread=False)
