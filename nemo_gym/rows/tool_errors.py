"""The tool calls of a row that failed, and whose fault that was.

The environment is at fault if its code raised, if it has no route for the tool, if it refused arguments that fit the
schema of the row's tool, or if it could not be reached. The model is at fault if its arguments are no JSON or do not
fit that schema, if the task declares no such tool, or if the tool rejected the arguments on purpose.

`_ng_tool_errors` has the failed calls by tool and cause. The output item of such a call has `_ng_tool_error`. A row
without a failed call has neither.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from nemo_gym.names import MCP_TOOL_PREFIX, OUTPUT_ERROR_KEY
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import TOOL_ERRORS_KEY
from nemo_gym.rows.parts import Item, read_output

__all__ = ["FailedCall", "ToolErrorKind"]

TOOL_ERRORS: Final = "tool_errors"
"""The number of calls that failed by the environment's fault, as a measurement of a row."""
INVALID_TOOL_CALLS: Final = "invalid_tool_calls"
"""The number of calls that failed by the model's fault."""
_LONGEST_CAUSE: Final = 300
CHANGING_NUMBERS: Final = r"0x[0-9a-f]+|(?<!HTTP )(?<!\d)\d+"
"""The numbers in which the messages of equal causes differ: no statuses."""
_DIFFERENCES: Final = re.compile(rf"[0-9a-f]{{8}}-[0-9a-f-]{{27}}|{CHANGING_NUMBERS}")
_MARK = TOOL_ERRORS_KEY.encode()


class Culprit(StrEnum):
    """The party whose fault a failed call is."""

    ENVIRONMENT = "environment"
    MODEL = "model"


class ToolErrorKind(StrEnum):
    """The way in which a tool call failed."""

    RAISED = "raised"
    """The tool's code raised an exception, or answered a status from 500."""
    NO_ROUTE = "no_route"
    """The environment has no route for a tool that the task declares."""
    MISMATCH = "mismatch"
    """The handler refused arguments that fit the schema of the row's tool: the two disagree."""
    UNAVAILABLE = "unavailable"
    """The tool was overloaded, out of time or out of reach."""
    NO_EFFECT = "no_effect"
    """A step of the environment gave no output for the call."""
    INVALID_JSON = "invalid_json"
    INVALID_ARGUMENTS = "invalid_arguments"
    """The arguments do not fit the schema of the row's tool."""
    UNKNOWN_TOOL = "unknown_tool"
    """The task declares no such tool."""
    REJECTED = "rejected"
    """The tool refused the arguments on purpose, by a status from 400 to 499."""

    @property
    def culprit(self) -> Culprit:
        return Culprit.MODEL if self in _BY_MODEL else Culprit.ENVIRONMENT


_BY_MODEL = frozenset(
    {
        ToolErrorKind.INVALID_JSON,
        ToolErrorKind.INVALID_ARGUMENTS,
        ToolErrorKind.UNKNOWN_TOOL,
        ToolErrorKind.REJECTED,
    }
)
_KINDS = tuple(ToolErrorKind)


CauseKey = tuple[str, str, str]
"""The tool, the kind and the cause, without the numbers and ids in which equal causes differ."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """The failure of one tool call."""

    tool: str
    kind: ToolErrorKind
    cause: str
    place: str | None = None
    """`file:line` of the author's code that raised or refused, if it is known."""

    @property
    def is_environments(self) -> bool:
        """Return whether the environment is at fault."""
        return self.kind.culprit is Culprit.ENVIRONMENT

    @property
    def cause_key(self) -> CauseKey:
        # Ids, addresses and numbers differ from call to call, and the cause does not.
        return self.tool, self.kind.value, self.place or _DIFFERENCES.sub("#", self.cause)

    def to_json(self) -> dict[str, Any]:
        """Return the members of the error in a row."""
        place = {} if self.place is None else {"place": self.place}
        return {
            "tool": self.tool,
            "by": self.kind.culprit.value,
            "kind": self.kind.value,
            "cause": self.cause[:_LONGEST_CAUSE],
            **place,
        }

    @classmethod
    def from_json(cls, value: object) -> FailedCall | None:
        """Return the error that `to_json` wrote; None for another value."""
        if not isinstance(value, Mapping) or value.get("kind") not in _KINDS:
            return None
        place = value.get("place")
        return cls(
            str(value.get("tool")),
            ToolErrorKind(value["kind"]),
            str(value.get("cause")),
            None if place is None else str(place),
        )

    def __str__(self) -> str:
        cause = " ".join(self.cause.split()).removesuffix(":")
        return f"{cause} ({self.place})" if self.place else cause


class CountedError(NamedTuple):
    """A cause and the number of calls that failed by it."""

    call: FailedCall
    """The first of them."""
    times: int


def may_have_tool_errors(line: bytes) -> bool:
    """Return whether the JSON of a row may have failed tool calls. It is not parsed."""
    return _MARK in line


def read_tool_errors(row: AnyRow) -> list[CountedError]:
    """Return the failed tool calls of a row by tool and cause; empty for a row without any."""
    entries = row.get(TOOL_ERRORS_KEY)
    return list(_read_counted(entries)) if isinstance(entries, list) else []


def count_failed_calls(row: AnyRow) -> dict[str, float]:
    """Return the numbers of failed calls by name, the environment's and the model's; empty for a row without any."""
    errors = read_tool_errors(row)
    if not errors:
        return {}
    by_environment = sum(count for call, count in errors if call.is_environments)
    return {
        TOOL_ERRORS: float(by_environment),
        INVALID_TOOL_CALLS: float(sum(count for _, count in errors) - by_environment),
    }


def read_failed_outputs(output: Iterable[Item]) -> list[FailedCall]:
    """Return the failures of the calls whose output items are marked, in order."""
    marks = (FailedCall.from_json(item.get(OUTPUT_ERROR_KEY)) for item in output)
    return [failed for failed in marks if failed is not None]


def count_answered_calls(row: AnyRow) -> Counter[str]:
    """Return the number of tool calls with an output, failed ones included, by the name of the tool."""
    names: dict[str, str] = {}
    answered: Counter[str] = Counter()
    for item in read_output(row):
        kind = item.get("type")
        if kind == "function_call":
            names[str(item.get("call_id"))] = str(item.get("name"))
        elif kind == "function_call_output" and (name := names.pop(str(item.get("call_id")), None)):
            prefix = MCP_TOOL_PREFIX.match(name)
            answered[name[prefix.end() :] if prefix else name] += 1
    return answered


def _read_counted(entries: Iterable[object]) -> Iterator[CountedError]:
    for entry in entries:
        failed = FailedCall.from_json(entry)
        count = entry.get("count") if isinstance(entry, Mapping) else None
        if failed is not None and isinstance(count, int) and count > 0:
            yield CountedError(failed, count)
