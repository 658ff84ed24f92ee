"""Notes about what a conversion changed, and problems for what it cannot express.

Nothing is dropped silently. A change that a caller may want to count is a `Note`. A field without an equivalent in
the other API is added to `ConversionProblems`, which raises one `InputError` that names every such field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple

from nemo_gym.failures import InputError

UNKNOWN_FIELD = "the other API has no place for it"


@dataclass(frozen=True, slots=True)
class Note:
    """A change that a conversion made to its input."""

    code: str
    """A code for counting: `sanitised_arguments`, `dropped_reasoning`, ..."""
    field: str
    """The path of the changed value in the input: `input[3].arguments`."""
    message: str


class Converted(NamedTuple):
    """A converted request body, and notes about changed values."""

    body: dict[str, Any]
    notes: tuple[Note, ...]


class ConversionProblem(NamedTuple):
    """A field that cannot be converted, and the reason."""

    field: str
    reason: str


class ConversionProblems:
    """Collects every problem of one request, so that the user sees all of them at once, and the notes about changes."""

    __slots__ = ("_found", "notes")

    def __init__(self) -> None:
        self._found: list[ConversionProblem] = []
        self.notes: list[Note] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, field: str, reason: str) -> None:
        self._found.append(ConversionProblem(field, reason))

    def note(self, code: str, field: str, message: str) -> None:
        """Note a change that is no problem."""
        self.notes.append(Note(code, field, message))

    def add_unknown(self, given: Mapping[str, Any], known: AbstractSet[str], prefix: str) -> None:
        """Add a problem for each field of `given` that is not `known`, except nulls."""
        for key in given.keys() - known:
            if given[key] is not None:
                self.add(f"{prefix}{key}", UNKNOWN_FIELD)

    def read_object(self, value: object, field: str) -> dict[str, Any]:
        """Return `value`, or an empty object: for null, and with a problem for anything else."""
        if isinstance(value, dict):
            return value
        if value is not None:
            self.add(field, "must be an object")
        return {}

    def messages_in(self, messages: object) -> Iterator[tuple[str, Any]]:
        """Yield the messages of a request with their paths. None is a problem."""
        if isinstance(messages, list) and messages:
            yield from ((f"messages[{index}]", message) for index, message in enumerate(messages))
        else:
            self.add("messages", "must be a list of messages, and not empty")

    def tools_in(self, tools: object) -> Iterator[tuple[str, Any]]:
        """Yield the tools of a request with their paths. A problem if they are no list."""
        if isinstance(tools, list):
            yield from ((f"tools[{index}]", tool) for index, tool in enumerate(tools))
        else:
            self.add("tools", "must be a list")

    def raise_if_any(self, target: str) -> None:
        """Raise one `InputError` for all problems; its `param` lists the fields, sorted, with `, ` between."""
        if not self._found:
            return
        problems = sorted(self._found)
        told = "; ".join(f"`{problem.field}`: {problem.reason}" for problem in problems)
        raise InputError(
            f"This request can't be expressed in {target}. {told}.",
            code="not_convertible",
            param=", ".join(dict.fromkeys(problem.field for problem in problems)),
            remedy="Leave these fields out, or call a model server that speaks this API natively.",
        )
