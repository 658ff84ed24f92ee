"""Comparison of the function calls of a response with the expected calls of a task.

Arguments are compared as JSON values (`nemo_gym.verify.json_equality`), not as text: spaces, the order of keys and
`1` against `1.0` are ignored. A call whose arguments are not a JSON object matches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from nemo_gym.json_objects import object_in
from nemo_gym.responses.wire import read_field
from nemo_gym.verify.json_equality import is_same_json
from nemo_gym.verify.task_rows import invalid_row


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call with its arguments; None when the model's text is not a JSON object."""

    name: str
    arguments: Mapping[str, Any] | None = field(default_factory=dict)

    def __str__(self) -> str:
        if self.arguments is None:
            return f"{self.name}(arguments are not a JSON object)"
        inside = ", ".join(f"{name}={orjson.dumps(value).decode()}" for name, value in self.arguments.items())
        return f"{self.name}({inside})"


@dataclass(frozen=True, slots=True)
class CallComparison:
    """The actual calls that match expected ones, the missing ones and the unexpected ones."""

    matched: tuple[FunctionCall, ...]
    missing: tuple[FunctionCall, ...]
    unexpected: tuple[FunctionCall, ...]

    @property
    def is_exact(self) -> bool:
        """True if every expected call was made and no other."""
        return not self.missing and not self.unexpected

    @property
    def recall(self) -> float:
        """The fraction of the expected calls that were made; 1 when none was expected."""
        expected = len(self.matched) + len(self.missing)
        return len(self.matched) / expected if expected else 1.0

    @property
    def precision(self) -> float:
        """The fraction of the actual calls that were expected; 1 when none was made."""
        made = len(self.matched) + len(self.unexpected)
        return len(self.matched) / made if made else 1.0


def read_function_calls(response: object) -> list[FunctionCall]:
    """Return the function calls of a Response (an object or its JSON), in order."""
    return [
        FunctionCall(str(read_field(item, "name")), _read_arguments(read_field(item, "arguments")))
        for item in read_field(response, "output") or ()
        if read_field(item, "type") == "function_call"
    ]


def read_expected_calls(entries: Iterable[Mapping[str, Any]]) -> list[FunctionCall]:
    """Parse the calls of a dataset row: `{"name": ..., "arguments": {...} or its JSON text}`.

    Raises InputError that lists every invalid entry.
    """
    calls, problems = [], []
    for index, entry in enumerate(entries):
        name, arguments = entry.get("name"), _read_arguments(entry.get("arguments", {}))
        if not isinstance(name, str) or not name:
            problems.append(f"call {index} has no name")
        elif arguments is None:
            problems.append(f"the arguments of call {index} ({name}) are not a JSON object")
        else:
            calls.append(FunctionCall(name, arguments))
    if problems:
        raise invalid_row(f"the expected calls cannot be read: {'; '.join(problems)}")
    return calls


def is_same_call(
    expected: FunctionCall,
    actual: FunctionCall,
    *,
    ignored_arguments: Collection[str] = (),
    tolerance: float = 0.0,
) -> bool:
    """Return whether `actual` calls the same function with the same arguments."""
    if expected.name != actual.name or expected.arguments is None or actual.arguments is None:
        return False
    wanted, given = (
        {name: value for name, value in call.items() if name not in ignored_arguments}
        for call in (expected.arguments, actual.arguments)
    )
    return is_same_json(wanted, given, tolerance=tolerance)


def compare_calls(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    in_order: bool = True,
    ignored_arguments: Collection[str] = (),
    tolerance: float = 0.0,
) -> CallComparison:
    """Match actual calls with expected ones, each at most once.

    With `in_order` the matched calls form a longest common subsequence; otherwise their order is ignored.
    """
    same = [
        [
            is_same_call(wanted, given, ignored_arguments=ignored_arguments, tolerance=tolerance)
            for given in actual
        ]
        for wanted in expected
    ]
    pairs = _longest_in_order(same, len(actual)) if in_order else _any_order(same)
    used = set(pairs.values())
    return CallComparison(
        matched=tuple(actual[index] for index in pairs.values()),
        missing=tuple(call for index, call in enumerate(expected) if index not in pairs),
        unexpected=tuple(call for index, call in enumerate(actual) if index not in used),
    )


def _any_order(same: Sequence[Sequence[bool]]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    used: set[int] = set()
    for wanted, row in enumerate(same):
        given = next((index for index, is_same in enumerate(row) if is_same and index not in used), None)
        if given is not None:
            pairs[wanted] = given
            used.add(given)
    return pairs


def _longest_in_order(same: Sequence[Sequence[bool]], width: int) -> dict[int, int]:
    """Return a longest common subsequence as pairs of positions."""
    height = len(same)
    lengths = [[0] * (width + 1) for _ in range(height + 1)]
    for left in range(height - 1, -1, -1):
        for right in range(width - 1, -1, -1):
            if same[left][right]:
                lengths[left][right] = lengths[left + 1][right + 1] + 1
            else:
                lengths[left][right] = max(lengths[left + 1][right], lengths[left][right + 1])
    pairs: dict[int, int] = {}
    left = right = 0
    while left < height and right < width:
        if same[left][right]:
            pairs[left] = right
            left, right = left + 1, right + 1
        elif lengths[left + 1][right] >= lengths[left][right + 1]:
            left += 1
        else:
            right += 1
    return pairs


def _read_arguments(arguments: object) -> Mapping[str, Any] | None:
    if isinstance(arguments, str):
        return object_in(arguments or "{}")
    return arguments if isinstance(arguments, Mapping) else None
