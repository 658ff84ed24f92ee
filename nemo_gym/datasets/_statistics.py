"""Statistics of dataset rows that can be merged: the merged statistics of files are those of all their rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_gym.names import AGENT_REF_KEY, PARAMS_KEY
from nemo_gym.rollouts.plan.task_rows import Task


@dataclass(slots=True)
class NumberSummary:
    """A running summary of numbers."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.squares += value * value
        self.low, self.high = min(self.low, value), max(self.high, value)

    def merge(self, other: NumberSummary) -> None:
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def to_json(self) -> dict[str, float]:
        """Return count, minimum, mean, maximum and sample standard deviation; only the count if it is 0."""
        if not self.count:
            return {"count": 0}
        mean = self.total / self.count
        spread = max(0.0, self.squares - self.count * mean * mean)
        deviation = math.sqrt(spread / (self.count - 1)) if self.count > 1 else 0.0
        return {
            "count": self.count,
            "min": self.low,
            "mean": round(mean, 6),
            "max": self.high,
            "std": round(deviation, 6),
        }


@dataclass(slots=True)
class DatasetStatistics:
    """Statistics of the valid rows of one file or one split."""

    rows: int = 0
    agents: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    """Number of rows with each field, without parameters and agent reference."""
    parameters: Counter[str] = field(default_factory=Counter)
    """Number of rows with each parameter."""
    messages: NumberSummary = field(default_factory=NumberSummary)
    """Number of input items per row; a text counts as one."""
    input_characters: NumberSummary = field(default_factory=NumberSummary)
    tools: NumberSummary = field(default_factory=NumberSummary)

    def add(self, task: Task) -> None:
        asked = task.params["input"]
        self.rows += 1
        self.agents[task.agent] += 1
        self.fields.update(key for key in task.row if key not in (PARAMS_KEY, AGENT_REF_KEY))
        self.parameters.update(key for key in task.params if key != "input")
        self.messages.add(1 if isinstance(asked, str) else len(asked))
        self.input_characters.add(len(asked) if isinstance(asked, str) else sum(map(_characters_in, asked)))
        self.tools.add(len(task.params.get("tools") or ()))

    def merge(self, other: DatasetStatistics) -> None:
        self.rows += other.rows
        for mine, theirs in (
            (self.agents, other.agents),
            (self.fields, other.fields),
            (self.parameters, other.parameters),
        ):
            mine.update(theirs)
        self.messages.merge(other.messages)
        self.input_characters.merge(other.input_characters)
        self.tools.merge(other.tools)

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "agents": dict(sorted(self.agents.items())),
            "fields": dict(sorted(self.fields.items())),
            "parameters": dict(sorted(self.parameters.items())),
            "messages": self.messages.to_json(),
            "input_characters": self.input_characters.to_json(),
            "tools": self.tools.to_json(),
        }


def text_of_item(item: Mapping[str, Any]) -> str:
    """Return the text of an input item: of a message, a tool output or the arguments of a call."""
    content = item.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return str(content or item.get("output") or item.get("arguments") or "")


def _characters_in(item: Mapping[str, Any]) -> int:
    return len(text_of_item(item))
