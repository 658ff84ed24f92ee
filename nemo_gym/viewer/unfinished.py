"""The rows and the mean reward of runs without a recorded end: they go on, or were killed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nemo_gym.metrics import mean
from nemo_gym.rollouts.output.row_index import LENGTH_COLUMN, decode_block
from nemo_gym.viewer.indexing import FollowedRows

_MOST_READ = 20
"""Unfinished runs of a list whose rows are read: the newest ones."""
_PATIENCE_S = 0.3


class UnfinishedRuns:
    """Counts the rows of unfinished runs while they grow."""

    def __init__(self, find_rows: Callable[[str], FollowedRows]) -> None:
        """`find_rows` returns the rows of the run with an id."""
        self._find_rows = find_rows
        self._tallies: dict[str, _RowTally] = {}

    async def fill(self, summaries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return summaries of runs, newest first, those of unfinished ones with rows and mean reward.

        A run whose rows are still being read is as it was.
        """
        whole = [*summaries]
        unfinished = [
            each
            for each in whole
            if each["end"] is None and each["rows"] is None and each["planned"] is not None
        ]
        await asyncio.gather(*map(self._fill, unfinished[:_MOST_READ]))
        return whole

    async def _fill(self, summary: dict[str, Any]) -> None:
        rows = self._find_rows(summary["id"])
        await rows.refresh(_PATIENCE_S)
        if rows.total_bytes and not rows.blocks:
            return
        tally = self._tallies.setdefault(summary["id"], _RowTally())
        tally.take(rows)
        summary["rows"] = tally.rows
        if "aim" not in summary:  # whose mean is that of its estimate
            summary |= {"mean": tally.mean, "interval": None, "pass_at": None}


class _RowTally:
    """The rows of a file, counted once each."""

    def __init__(self) -> None:
        self.rows = 0
        self._generation = 0
        self._taken = 0
        self._sums: defaultdict[str | None, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
        """The sum and the number of rewards by agent."""

    @property
    def mean(self) -> float | None:
        """The mean over agents of their mean rewards, as in the list of ended runs; None without a reward."""
        means = [total / count for total, count in self._sums.values() if count]
        return mean(means) if means else None

    def take(self, rows: FollowedRows) -> None:
        """Count the rows that were read since the last call; all of them if the file was replaced."""
        if rows.generation != self._generation:
            self.rows = self._taken = 0
            self._sums.clear()
            self._generation = rows.generation
        blocks = rows.blocks[self._taken :]
        self._taken += len(blocks)
        for block in map(decode_block, blocks):
            self.rows += block.rows
            self._add(block.columns)

    def _add(self, columns: Mapping[str, Sequence[Any]]) -> None:
        nothing = [None] * len(columns[LENGTH_COLUMN])
        agents, rewards = columns.get("agent", nothing), columns.get("reward", nothing)
        for agent, reward in zip(agents, rewards, strict=True):
            if reward is not None and reward == reward:  # NaN without a score
                total, count = self._sums[agent]
                self._sums[agent] = total + reward, count + 1
