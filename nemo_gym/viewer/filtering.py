"""The filters of the page in Python, for the rows of an export: see `viewer/src/columns/query.ts`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.row_index import LENGTH_COLUMN, RowEntry, build_entry
from nemo_gym.viewer.searching import list_spellings

_TERM: Final = re.compile(r"(-?)([^\W\d][\w./@-]*)(<=|>=|!=|<|>|=|:)")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_NUMBER: Final = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([kKmMgG]?)")
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?)?")
_SCALES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_NONE: Final = "none"
_ALIASES: Final = {
    "env": "agent",
    "end": "end_reason",
    "time": "seconds",
    "at": "created_at",
    "policy": "policy_version",
    "s": "seconds",
    "tokens": "total_tokens",
    "calls": "tool_calls",
    "k": "rollout",
}
_LABELS: Final = frozenset(build_entry({}).labels)
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    ":": operator.eq,
}

Value: TypeAlias = float | str | None
Test: TypeAlias = Callable[[Value], bool]


class _Term(NamedTuple):
    column: str
    test: Test
    negated: bool


class RowFilter:
    """A parsed filter."""

    def __init__(self, text: str) -> None:
        """Raises `ConfigError` for a text that is not a filter."""
        self.text = text
        self._terms: list[_Term] = []
        self._spellings: list[Collection[bytes]] = []
        at = 0
        while at < len(text):
            at = at + 1 if text[at].isspace() else self._read_term(at)

    def matches(self, entry: RowEntry, line: bytes) -> bool:
        """Return whether every term holds for a row with the columns `entry` and the bytes `line`."""
        values: dict[str, Value] = {**entry.numbers, **entry.labels, LENGTH_COLUMN: len(line)}
        if any(term.test(values.get(term.column)) == term.negated for term in self._terms):
            return False
        lowered = line.lower() if self._spellings else b""
        return all(any(text in lowered for text in spellings) for spellings in self._spellings)

    def check_columns(self, known: Collection[str]) -> None:
        """Raise `ConfigError` if a term names a column that is not in `known` and that not every row has."""
        for column in (term.column for term in self._terms):
            if column not in known and column not in _LABELS and column != LENGTH_COLUMN:
                names = ", ".join(sorted({*known, *_LABELS}))
                raise _unusable(self.text, f'there is no column "{column}"', f"The columns are {names}.")

    def _read_term(self, at: int) -> int:
        match = _TERM.match(self.text, at)
        if match is None:
            word, end = self._read_word(at, "")
            if word:
                self._spellings.append(list_spellings(word))
            return end
        minus, name, comparison = match.groups()
        values, end = [], match.end() - 1
        while end < match.end() or self.text[end : end + 1] == ",":
            word, end = self._read_word(end + 1, ",")
            values.append(word)
        if "" in values:
            raise _unusable(self.text, f'a value is missing after "{name}{comparison}"')
        column = _ALIASES.get(name, name)
        make = _label_test if column in _LABELS else _number_test
        self._terms.append(_Term(column, make(self.text, column, comparison, values), bool(minus)))
        return end

    def _read_word(self, at: int, stops: str) -> tuple[str, int]:
        """Return the word or the quoted text at `at`, and its end."""
        if self.text[at : at + 1] != '"':
            end = at
            while end < len(self.text) and not self.text[end].isspace() and self.text[end] not in stops:
                end += 1
            return self.text[at:end], end
        quoted = _QUOTED.match(self.text, at)
        if quoted is None:
            raise _unusable(self.text, "the quotation mark at the end is missing")
        return re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL), quoted.end()


def _label_test(text: str, column: str, comparison: str, values: list[str]) -> Test:
    if comparison not in (":", "=", "!="):
        raise _unusable(text, f'"{column}" holds labels', f'Compare them with ":", as in {column}:text*.')
    patterns = [
        re.compile(".*".join(map(re.escape, value.split("*"))), re.IGNORECASE | re.DOTALL)
        for value in values
        if value != _NONE
    ]
    has_none, is_negated = _NONE in values, comparison == "!="

    def test(value: Value) -> bool:
        if value is None:
            return has_none != is_negated
        return any(pattern.fullmatch(str(value)) for pattern in patterns) != is_negated

    return test


def _number_test(text: str, column: str, comparison: str, values: list[str]) -> Test:
    tests = [_one_number_test(text, comparison, value) for value in values]
    combine = all if comparison == "!=" else any
    return lambda value: combine(test(value) for test in tests)


def _one_number_test(text: str, comparison: str, bound: str) -> Test:
    """A missing number satisfies no comparison with a number."""
    compare = _COMPARISONS[comparison]
    if bound == _NONE and comparison in (":", "=", "!="):
        return lambda value: compare(value is None, True)
    number = _number_in(bound)
    if number is None:
        raise _unusable(
            text, f'"{bound}" is not a number', "Write 12, -0.5, 4k, 2M or a time such as 2026-05-01T18:30."
        )
    return lambda value: value is not None and compare(float(value), number)


def _number_in(text: str) -> float | None:
    """Return a number, or a time in UTC as seconds since 1970."""
    if text in ("true", "false"):
        return float(text == "true")
    if _TIME.fullmatch(text):
        return _seconds_at(text)
    match = _NUMBER.fullmatch(text)
    return None if match is None else float(match[1].replace("_", "")) * _SCALES[match[2].lower()]


def _seconds_at(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:  # the 30th of February
        return None


def _unusable(text: str, problem: str, remedy: str = "docs/viewer.md describes filters.") -> ConfigError:
    return ConfigError(f"the filter {text!r} cannot be used: {problem}", code="bad_filter", remedy=remedy)
