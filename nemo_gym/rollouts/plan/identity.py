"""The identity of a rollout: the pair (task, repeat), and the keys that hold it.

A task's number is its index in the dataset, not counting blank lines. It is independent of the limit and of skipped
malformed rows. Repeats are numbered from 0 within their task.

Rows that the gym writes start with the identity, so a reader finds the rollouts of a file from the first bytes of each
line, without parsing trajectories of megabytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from nemo_gym.names import ROLLOUT_INDEX_KEY, TASK_INDEX_KEY

_HEAD = re.compile(rb'\{"_ng_task_index":(\d+),"_ng_rollout_index":(\d+)[,}]')


class RolloutId(NamedTuple):
    """One rollout of a run: `task` is the row's index in the dataset, `repeat` counts from 0."""

    task: int
    repeat: int

    def head(self) -> bytes:
        """Return the first bytes of the JSON of every row of this rollout."""
        return b'{"_ng_task_index":%d,"_ng_rollout_index":%d,' % self

    def __str__(self) -> str:
        return f"task {self.task}, repeat {self.repeat}"


def identity_at(text: bytes) -> RolloutId | None:
    """Return the identity at the start of a row's JSON, or None if the row does not start with it."""
    match = _HEAD.match(text)
    return RolloutId(int(match[1]), int(match[2])) if match else None


def identity_in(row: Mapping[str, Any]) -> RolloutId | None:
    """Return the identity of a parsed row, or None."""
    task, repeat = row.get(TASK_INDEX_KEY), row.get(ROLLOUT_INDEX_KEY)
    if isinstance(task, int) and isinstance(repeat, int):
        return RolloutId(task, repeat)
    return None


class FinishedRollouts:
    """The set of finished rollouts: one integer per task, one bit per repeat."""

    def __init__(self) -> None:
        self._repeats: dict[int, int] = {}
        self._count = 0

    def add(self, identity: RolloutId) -> bool:
        """Add `identity`; return False if it was already in the set."""
        repeats = self._repeats.get(identity.task, 0)
        bit = 1 << identity.repeat
        if repeats & bit:
            return False
        self._repeats[identity.task] = repeats | bit
        self._count += 1
        return True

    def __contains__(self, identity: RolloutId) -> bool:
        return bool(self._repeats.get(identity.task, 0) >> identity.repeat & 1)

    def __len__(self) -> int:
        return self._count

    def last(self) -> RolloutId:
        """Return the highest identity; (-1, -1) for an empty set."""
        task = max(self._repeats, default=-1)
        return RolloutId(task, self._repeats.get(task, 0).bit_length() - 1)
