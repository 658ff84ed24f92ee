"""Comparison of the final state of an attempt with the expected state.

A state is a JSON value: tables, a calendar, a file system as a tree. The result is a readable list of differences,
because a reward of 0 does not show whether the policy or the task is wrong.

    differences({"events": [{"id": 1, "title": "Lunch"}]}, {"events": [{"id": 1, "title": "Dinner"}]})
    →  $.events[0].title: expected "Lunch", found "Dinner"
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import zip_longest

from nemo_gym.verify.json_equality import is_array, is_same_json

_LONGEST_VALUE = 120
_ABSENT = object()
"""Stands for a member or an item that one of the states lacks."""


class DifferenceKind(StrEnum):
    CHANGED = "changed"
    MISSING = "missing"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference of two states. `str()` gives its path and both values."""

    path: str
    """`$.events[0].title`"""
    kind: DifferenceKind
    expected: object = None
    actual: object = None

    def __str__(self) -> str:
        if self.kind is DifferenceKind.MISSING:
            return f"{self.path}: expected {_show(self.expected)}, found nothing"
        if self.kind is DifferenceKind.UNEXPECTED:
            return f"{self.path}: unexpected {_show(self.actual)}"
        return f"{self.path}: expected {_show(self.expected)}, found {_show(self.actual)}"


@dataclass(frozen=True, slots=True)
class StateRules:
    """The differences to ignore. Paths are patterns with `*` as a wildcard: `$.events[*].id` matches every id."""

    ignored: Collection[str] = ()
    """Paths whose values are ignored, such as generated ids and times."""
    unordered: Collection[str] = ()
    """Paths of arrays whose order is ignored."""
    tolerance: float = 0.0
    """Allowed difference of numbers that are not integers, absolute or relative."""


def differences(expected: object, actual: object, rules: StateRules | None = None) -> list[Difference]:
    """Return every difference of `actual` from `expected`; empty when they are the same."""
    return list(_compare(expected, actual, "$", rules or StateRules()))


def is_same_state(expected: object, actual: object, rules: StateRules | None = None) -> bool:
    """Return whether there are no differences."""
    return not any(_compare(expected, actual, "$", rules or StateRules()))


def _compare(expected: object, actual: object, path: str, rules: StateRules) -> Iterator[Difference]:
    if _matches(path, rules.ignored):
        return
    if actual is _ABSENT:
        yield Difference(path, DifferenceKind.MISSING, expected=expected)
    elif expected is _ABSENT:
        yield Difference(path, DifferenceKind.UNEXPECTED, actual=actual)
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for name in dict.fromkeys((*expected, *actual)):
            wanted, given = expected.get(name, _ABSENT), actual.get(name, _ABSENT)
            yield from _compare(wanted, given, f"{path}.{name}", rules)
    elif is_array(expected) and is_array(actual):
        if _matches(path, rules.unordered):
            yield from _compare_multisets(expected, actual, path, rules)
            return
        for index, (wanted, given) in enumerate(zip_longest(expected, actual, fillvalue=_ABSENT)):
            yield from _compare(wanted, given, f"{path}[{index}]", rules)
    elif not is_same_json(expected, actual, tolerance=rules.tolerance):
        yield Difference(path, DifferenceKind.CHANGED, expected, actual)


def _compare_multisets(
    expected: Sequence[object], actual: Sequence[object], path: str, rules: StateRules
) -> Iterator[Difference]:
    left_over = dict(enumerate(actual))
    for index, wanted in enumerate(expected):
        place = f"{path}[{index}]"
        same = (other for other, given in left_over.items() if not any(_compare(wanted, given, place, rules)))
        found = next(same, None)
        if found is None:
            yield from _compare(wanted, _ABSENT, place, rules)
        else:
            del left_over[found]
    for index, given in left_over.items():
        yield from _compare(_ABSENT, given, f"{path}[{index}]", rules)


def _matches(path: str, patterns: Collection[str]) -> bool:
    # `[` opens a character set in fnmatch, but an index in a path.
    return any(fnmatchcase(path, pattern.replace("[", "[[]")) for pattern in patterns)


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
