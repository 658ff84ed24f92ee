"""The identity of a row: the pair (task, repeat), and the keys that carry it.

A task is numbered by its place in the dataset, blank lines aside, so that a number means the same row whatever the
limit and whether or not malformed rows are skipped. A repeat is numbered from 0 within its task.

Rows that we write begin with the identity. A reader can so learn which rollouts a file holds from the first few
bytes of each line, without parsing trajectories of megabytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from nemo_gym.names import ROLLOUT_INDEX_KEY, TASK_INDEX_KEY

_HEAD = re.compile(rb'\{"_ng_task_index":(\d+),"_ng_rollout_index":(\d+)[,}]')


class RolloutId(NamedTuple):
    """One rollout of a run: `task` is the row's place in the dataset, `repeat` counts from 0."""

    task: int
    repeat: int

    def head(self) -> bytes:
        """The first bytes of the JSON of every row of this rollout; the rest of the object follows."""
        return b'{"_ng_task_index":%d,"_ng_rollout_index":%d,' % self

    def __str__(self) -> str:
        return f"task {self.task}, repeat {self.repeat}"


def identity_at(text: Any, start: int = 0) -> RolloutId | None:
    """The identity of the row whose JSON begins at `start` of a buffer, or None when it does not lead the row."""
    match = _HEAD.match(text, start)
    return RolloutId(int(match[1]), int(match[2])) if match else None


def identity_in(row: Mapping[str, Any]) -> RolloutId | None:
    """The identity of a parsed row, or None when it has none."""
    task, repeat = row.get(TASK_INDEX_KEY), row.get(ROLLOUT_INDEX_KEY)
    if isinstance(task, int) and isinstance(repeat, int):
        return RolloutId(task, repeat)
    return None


class FinishedRollouts:
    """The identities that have their result: one integer of bits per task, whatever the number of repeats."""

    def __init__(self) -> None:
        self._repeats: dict[int, int] = {}
        self._count = 0

    def add(self, identity: RolloutId) -> bool:
        """Note `identity` as finished; False when it already was."""
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
        """The highest identity; one below all where there is none."""
        task = max(self._repeats, default=-1)
        return RolloutId(task, self._repeats.get(task, 0).bit_length() - 1)

    def count(self, tasks: range, repeats: int) -> int:
        """The number of those that are among the first `repeats` repeats of `tasks`."""
        mask = (1 << repeats) - 1
        return sum((bits & mask).bit_count() for task, bits in self._repeats.items() if task in tasks)
