"""Tool calls and their failures over the rollouts of a run, by tool and cause.

Metrics of a run with failed calls:

    count/tool_calls, count/tool_errors, count/invalid_tool_calls   answered calls; those that failed by the fault of
                                                                    the environment, and of the model
    tool_error_rate                                                 percent of the calls that the environment failed
    <each of these>/<tool>                                          of one tool, if any of its calls failed

A run without a failed call has none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.tool_errors import (
    INVALID_TOOL_CALLS,
    TOOL_ERRORS,
    CauseKey,
    CountedError,
    FailedCall,
    count_answered_calls,
    read_tool_errors,
)


class FailedCalls(NamedTuple):
    """The calls of one tool that failed by one cause."""

    call: FailedCall
    """The first of them."""
    failed: int
    calls: int
    """All calls of the tool."""

    def __str__(self) -> str:
        noun = "call" if self.calls == 1 else "calls"
        return f"{self.failed:,} of {self.calls:,} {noun} of `{self.call.tool}` failed: {self.call}"

    def to_json(self) -> dict[str, Any]:
        return {**self.call.to_json(), "count": self.failed, "calls": self.calls}


class ToolTally:
    """Counts the tool calls of scored rows."""

    def __init__(self) -> None:
        self._answered: Counter[str] = Counter()
        self._first: dict[CauseKey, FailedCall] = {}
        self._counts: Counter[CauseKey] = Counter()

    def add(self, row: AnyRow) -> None:
        """Count the calls of a row."""
        self._answered.update(count_answered_calls(row))
        for error in read_tool_errors(row):
            self._add_error(error)

    def merge(self, other: ToolTally) -> None:
        """Add the counts of another tally."""
        self._answered += other._answered
        for key, call in other._first.items():
            self._add_error(CountedError(call, other._counts[key]))

    def rank_failed(self) -> list[FailedCalls]:
        """Return the failures by the environment's fault, the most frequent first."""
        failed = [
            FailedCalls(call, self._counts[key], self._calls(call.tool))
            for key, call in self._first.items()
            if call.is_environments
        ]
        return sorted(failed, key=lambda each: (-each.failed, each.call.tool))

    def metrics(self) -> dict[str, float]:
        """Return the metrics; empty without a failed call."""
        tools = sorted({call.tool for call in self._first.values()})
        if not tools:
            return {}
        by_tool = {f"/{tool}": self._figures(tool) for tool in tools}
        calls = sum(max(self._answered[tool], self._count_failed(tool)) for tool in {*self._answered, *tools})
        whole = Counter[str]()
        for figures in by_tool.values():
            whole.update(figures)
        whole["count/tool_calls"] = calls
        return {
            f"{name}{ending}": value
            for ending, figures in {"": whole, **by_tool}.items()
            for name, value in _add_rate(figures)
        }

    def _add_error(self, error: CountedError) -> None:
        key = error.call.cause_key
        self._first.setdefault(key, error.call)
        self._counts[key] += error.times

    def _calls(self, tool: str) -> int:
        """Return the calls of a tool. The transcript of an external agent may lack outputs of failed ones."""
        return max(self._answered[tool], self._count_failed(tool))

    def _count_failed(self, tool: str) -> int:
        return sum(self._counts[key] for key, call in self._first.items() if call.tool == tool)

    def _figures(self, tool: str) -> Counter[str]:
        figures = Counter({"count/tool_calls": self._calls(tool)})
        for key, call in self._first.items():
            if call.tool == tool:
                name = TOOL_ERRORS if call.is_environments else INVALID_TOOL_CALLS
                figures[f"count/{name}"] += self._counts[key]
        return figures


def _add_rate(figures: Counter[str]) -> Iterator[tuple[str, float]]:
    errors, calls = figures[f"count/{TOOL_ERRORS}"], figures["count/tool_calls"]
    yield "count/tool_calls", calls
    yield f"count/{TOOL_ERRORS}", errors
    yield f"count/{INVALID_TOOL_CALLS}", figures[f"count/{INVALID_TOOL_CALLS}"]
    yield "tool_error_rate", 100.0 * errors / calls
