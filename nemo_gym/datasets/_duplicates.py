"""Duplicate rows, and leakage between splits.

Two rows are the same when all but their ids is (`id`, `uuid`, what begins with `_ng_`), and the same agent runs them.
Two rows ask the same when their input is, upper case and spaces aside, and so are their tools. A row of train
that asks the same as a row of validation is a leak, even where the two differ in something else, unless the prompt does
not tell the task: a prompt that several different rows of a split share (games that differ in a seed) is no sign.

Of a row, two digests of sixteen bytes are kept and where it was first seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from nemo_gym.datasets._statistics import text_of_item
from nemo_gym.names import AGENT_REF_KEY, RESERVED_PREFIX
from nemo_gym.rollouts.plan.task_rows import Task

_IDS = frozenset({"id", "uuid", AGENT_REF_KEY})
_SHARED = None
"""Stands for the place of a prompt that several different rows have."""


class Place(NamedTuple):
    """Where a row stands."""

    file: int
    """Its number among the files of the preparation."""
    line: int


class Repetition(NamedTuple):
    """A row that repeats another, in its own split or in a held-out one."""

    place: Place
    first: Place


@dataclass(slots=True)
class SplitRows:
    """The rows of one split."""

    rows: dict[bytes, Place] = field(default_factory=dict)
    prompts: dict[bytes, Place | None] = field(default_factory=dict)

    def add(self, task: Task, place: Place) -> Place | None:
        """Add a row; the place of the row that it duplicates, if it does."""
        row = row_digest(task)
        first = self.rows.setdefault(row, place)
        if first != place:
            return first
        prompt = prompt_digest(task)
        self.prompts[prompt] = _SHARED if prompt in self.prompts else place
        return None

    def leaked_from(self, held_out: SplitRows, task: Task) -> Place | None:
        """The row of `held_out` that asks the same as `task`, a row of this split, if there is one."""
        same = held_out.rows.get(row_digest(task))
        if same is not None:
            return same
        prompt = prompt_digest(task)
        return held_out.prompts.get(prompt) if self.prompts.get(prompt) is not _SHARED else None


def row_digest(task: Task) -> bytes:
    """Of everything in a row but its ids, and of the agent that runs it."""
    kept = {
        key: value
        for key, value in task.row.items()
        if key not in _IDS and not key.startswith(RESERVED_PREFIX)
    }
    return _digest([task.agent, kept])


def prompt_digest(task: Task) -> bytes:
    """Of what a row asks."""
    asked = task.params["input"]
    items = [{"content": asked}] if isinstance(asked, str) else asked
    said = [[item.get("role", "user"), _normalized(item)] for item in items]
    tools = [tool.get("name") for tool in task.params.get("tools") or () if isinstance(tool, Mapping)]
    return _digest([said, tools])


def _normalized(item: Mapping[str, Any]) -> Any:
    """An item's text without what doesn't tell texts apart, and whatever is not text as it is."""
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    others = [part for part in parts if isinstance(part, Mapping) and "text" not in part]
    return [" ".join(text_of_item(item).split()).casefold(), others]


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
