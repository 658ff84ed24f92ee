"""The row of a trajectory that another program wrote: the parts that are the same for every format."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ReadTrajectory:
    """The row of a trajectory, and the fields that it has no place for."""

    row: dict[str, Any]
    is_ours: bool
    lost: Counter[str] = field(default_factory=Counter)
    """Field → how many; empty for a trajectory of ours."""


def build_response(
    name: str, model: str, output: list[dict[str, Any]], usage: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the Responses object of a trajectory."""
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": model,
        "output": output,
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def describe_tokens(calls: int, whole_calls: int) -> str:
    """Return whether every model call has its tokens: `whole`, `partial` or `none`."""
    if not whole_calls:
        return "none"
    return "whole" if whole_calls == calls else "partial"
