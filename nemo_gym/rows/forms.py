"""The forms of a row. They are plain dicts while the gym runs; only the type checker tells them apart.

A verifier adds members of its own, so no form lists all members. `fields` describes those that the gym knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NewType, TypeAlias

__all__ = ["AnyRow"]

AnyRow: TypeAlias = Mapping[str, Any]
"""A row whose form is not known: one that was read from a file, or that another gym wrote. `verdict` tells its form."""
TaskRow = NewType("TaskRow", dict[str, Any])
"""A task: the request, the agent, and what the environment reads."""
ScoredRow = NewType("ScoredRow", dict[str, Any])
"""A task with its response and its reward."""
FailureRow = NewType("FailureRow", dict[str, Any])
"""A task with its failure, without a reward."""
