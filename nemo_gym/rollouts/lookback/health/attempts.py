"""The numbers of all rows of a run, in columns: 56 bytes a row, so that the rules of groups fit large runs."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from nemo_gym.metrics import VerdictTally
from nemo_gym.rollouts.lookback.health.rows import CheckedRow
from nemo_gym.rows.parts import read_agent_or_unknown
from nemo_gym.rows.verdict import is_scored, read_reward

_SHORTEST_COMPARED = 200
"""Characters. Shorter outputs may be equal by chance: a letter, a number, one call."""
_NO_DIGEST = 0


class CheckedAttempt(NamedTuple):
    """The numbers of one row."""

    line: int
    task: int
    repeat: int
    reward: float
    """NaN without a score."""
    characters: int
    """Everything that the model wrote."""
    digest: int
    """Of everything that the model wrote; 0 below 200 characters."""
    has_tokens: bool
    agent: int
    """The number of the agent, in the order of their first rows."""

    @property
    def is_scored(self) -> bool:
        """Return whether a verifier scored it."""
        return self.reward == self.reward


class Attempts:
    """All attempts of a run."""

    def __init__(self) -> None:
        codes = zip(CheckedAttempt._fields, "qqqdqqbq", strict=True)
        self.verdicts: defaultdict[str, VerdictTally] = defaultdict(VerdictTally)
        """By agent."""
        self._columns: dict[str, array[Any]] = {name: array(code) for name, code in codes}
        self.agents: dict[str, int] = {}
        """The agents by name, with their numbers."""

    def __len__(self) -> int:
        return len(self._columns["line"])

    def add(self, row: CheckedRow) -> None:
        """Keep the numbers of `row`."""
        reward = read_reward(row.row)
        if is_scored(row.row):
            self.verdicts[read_agent_or_unknown(row.row)].add(row.row)
        digest = hash(row.text) if len(row.text) >= _SHORTEST_COMPARED else _NO_DIGEST
        reward = math.nan if reward is None else reward
        agent = self.agents.setdefault(read_agent_or_unknown(row.row), len(self.agents))
        values = (row.line, *row.identity, reward, len(row.text), digest, row.has_tokens, agent)
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def __iter__(self) -> Iterator[CheckedAttempt]:
        return map(self._read_at, range(len(self)))

    def group_by_rollout(self) -> Iterator[Sequence[CheckedAttempt]]:
        """Yield the rows of each rollout, in the order of their lines."""
        return self._group("task", "repeat")

    def group_by_task(self) -> Iterator[Sequence[CheckedAttempt]]:
        """Yield the attempts of each task by one agent, in the order of their lines."""
        return self._group("task", "agent")

    def group_by_output(self) -> Iterator[Sequence[CheckedAttempt]]:
        """Yield the attempts of each output that is long enough to be compared."""
        return (group for group in self._group("digest") if group[0].digest != _NO_DIGEST)

    def _group(self, *names: str) -> Iterator[Sequence[CheckedAttempt]]:
        columns = [self._columns[name] for name in names]

        def key(place: int) -> tuple[Any, ...]:
            return tuple(column[place] for column in columns)

        for _, places in groupby(sorted(range(len(self)), key=key), key):
            yield list(map(self._read_at, places))

    def _read_at(self, place: int) -> CheckedAttempt:
        return CheckedAttempt(*(column[place] for column in self._columns.values()))
