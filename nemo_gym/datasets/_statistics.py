"""Statistics of dataset rows that can be merged: the merged statistics of files are those of all their rows."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from nemo_gym.metrics import mean, sample_standard_deviation
from nemo_gym.responses.wire import read_content_text
from nemo_gym.rollouts.plan.task_rows import Task
from nemo_gym.rows.parts import read_task_data


@dataclass(slots=True)
class DatasetStatistics:
    """Statistics of the valid rows of one file or one split."""

    rows: int = 0
    agents: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    """Number of rows with each field that the environment reads."""
    parameters: Counter[str] = field(default_factory=Counter)
    """Number of rows with each parameter."""
    messages: array[int] = field(default_factory=lambda: array("q"))
    """Number of input items per row; a text counts as one."""
    input_characters: array[int] = field(default_factory=lambda: array("q"))
    tools: array[int] = field(default_factory=lambda: array("q"))

    def add(self, task: Task) -> None:
        asked = task.params["input"]
        self.rows += 1
        self.agents[task.agent] += 1
        self.fields.update(read_task_data(task.row).keys())
        self.parameters.update(key for key in task.params if key != "input")
        self.messages.append(1 if isinstance(asked, str) else len(asked))
        self.input_characters.append(
            len(asked) if isinstance(asked, str) else sum(len(read_item_text(item)) for item in asked)
        )
        self.tools.append(len(task.params.get("tools") or ()))

    def merge(self, other: DatasetStatistics) -> None:
        """Add other rows: every field is a number, or a collection that is added like one."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "agents": dict(sorted(self.agents.items())),
            "fields": dict(sorted(self.fields.items())),
            "parameters": dict(sorted(self.parameters.items())),
            "messages": summarize(self.messages),
            "input_characters": summarize(self.input_characters),
            "tools": summarize(self.tools),
        }


def summarize(numbers: Sequence[int]) -> dict[str, float]:
    """Return count, minimum, mean, maximum and sample standard deviation; only the count if it is 0."""
    if not numbers:
        return {"count": 0}
    return {
        "count": len(numbers),
        "min": min(numbers),
        "mean": round(mean(numbers), 6),
        "max": max(numbers),
        "std": round(sample_standard_deviation(numbers) or 0.0, 6),
    }


def read_item_text(item: Mapping[str, Any]) -> str:
    """Return the text of an input item: of a message, a tool output or the arguments of a call."""
    return read_content_text(item.get("content") or item.get("output") or item.get("arguments"))
