"""Duplicate rows, and leakage between splits.

Two rows are duplicates if they have the same agent and the same fields, except ids (`id`, `uuid`, `_ng_*`). They have
the same prompt if their inputs are equal, ignoring case and white space, and they have the same tools. A train row with
the prompt of a validation row is a leak, even if other fields differ. A prompt that several different rows of one split
share does not identify a task (games that differ in a seed), so it is not evidence of a leak.

Memory: two digests of 16 bytes and one location per row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from nemo_gym.datasets._statistics import read_item_text
from nemo_gym.rollouts.plan.task_rows import Task
from nemo_gym.rows.parts import read_task_data

_IDS = frozenset({"id", "uuid"})
_SHARED = None
"""The place of a prompt that several different rows have."""


class Place(NamedTuple):
    """The location of a row."""

    file: int
    """The index of the file in the preparation."""
    line: int


class Repetition(NamedTuple):
    """A row that repeats another one, in its own split or in a held-out split."""

    place: Place
    first: Place


@dataclass(slots=True)
class SplitRows:
    """The rows of one split."""

    rows: dict[bytes, Place] = field(default_factory=dict)
    prompts: dict[bytes, Place | None] = field(default_factory=dict)

    def add(self, task: Task, place: Place) -> Place | None:
        """Add a row. Returns the place of the row that it duplicates, or None."""
        row = row_digest(task)
        first = self.rows.setdefault(row, place)
        if first != place:
            return first
        prompt = prompt_digest(task)
        self.prompts[prompt] = _SHARED if prompt in self.prompts else place
        return None

    def find_leak(self, held_out: SplitRows, task: Task) -> Place | None:
        """Return the row of `held_out` that leaks through `task`, a row of this split, or None."""
        same = held_out.rows.get(row_digest(task))
        if same is not None:
            return same
        prompt = prompt_digest(task)
        return held_out.prompts.get(prompt) if self.prompts.get(prompt) is not _SHARED else None


def row_digest(task: Task) -> bytes:
    """Return the digest of a row's agent, request and task, without ids."""
    data = {key: value for key, value in read_task_data(task.row).items() if key not in _IDS}
    return _digest([task.agent, task.params, data])


def prompt_digest(task: Task) -> bytes:
    """Return the digest of a row's normalized input and of its tools."""
    asked = task.params["input"]
    items = [{"content": asked}] if isinstance(asked, str) else asked
    messages = [[item.get("role", "user"), _normalize(item)] for item in items]
    tools = [tool.get("name") for tool in task.params.get("tools") or () if isinstance(tool, Mapping)]
    return _digest([messages, tools])


def _normalize(item: Mapping[str, Any]) -> Any:
    """Return an item's text without case and extra white space, and its other parts unchanged."""
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    others = [part for part in parts if isinstance(part, Mapping) and "text" not in part]
    return [" ".join(read_item_text(item).split()).casefold(), others]


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
