"""The calls and errors of each path of a server process, with the last error's cause: `ng_status` shows the tools."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

_MOST_PATHS = 256
_LONGEST_PATH = 256
_LONGEST_CAUSE = 300
_CAUSE_IN_SCOPE = "nemo_gym.error_cause"
OTHER_PATHS = "(other paths)"
"""The entry of further paths, because a caller may ask for any path."""


@dataclass(slots=True)
class PathFigures:
    """The requests of one path."""

    calls: int = 0
    seconds: float = 0.0
    """Of all calls together."""
    errors: int = 0
    """Requests answered with a status from 400."""
    cause: str | None = None
    """Of the last error."""
    place: str | None = None
    """`file:line` of the author's code that raised the last error, if it is known."""

    def note_error(self, status: int, scope: MutableMapping[str, Any]) -> None:
        """Count an error answer."""
        self.errors += 1
        cause, self.place = scope.get(_CAUSE_IN_SCOPE) or ("", None)
        self.cause = cause[:_LONGEST_CAUSE] or f"HTTP {status}"


class PathCounters(dict[str, PathFigures]):
    """The figures by path; further paths share one entry."""

    def __missing__(self, path: str) -> PathFigures:
        is_kept = len(self) < _MOST_PATHS and len(path) <= _LONGEST_PATH
        return self.setdefault(path if is_kept else OTHER_PATHS, PathFigures())


def keep_cause(scope: MutableMapping[str, Any], cause: str, place: str | None) -> None:
    """Keep the cause of an error answer in the scope of its request."""
    scope[_CAUSE_IN_SCOPE] = cause, place
