"""The numbers of all rows of a run, in columns: 48 bytes a row, so that the rules of groups fit large runs."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from nemo_gym.metrics.records import finite_number, is_scored
from nemo_gym.names import REWARD_KEY
from nemo_gym.rollouts.lookback.health.rows import CheckedRow

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

    @property
    def is_scored(self) -> bool:
        """Return whether a verifier scored it."""
        return self.reward == self.reward

    @property
    def is_comparable(self) -> bool:
        """Return whether its output is long enough to be compared with others."""
        return self.digest != _NO_DIGEST


class Attempts:
    """All attempts of a run."""

    def __init__(self) -> None:
        self._integers = tuple(array("q") for _ in range(5))
        self._rewards = array("d")
        self._has_tokens = bytearray()

    def __len__(self) -> int:
        return len(self._rewards)

    def add(self, row: CheckedRow) -> None:
        """Keep the numbers of `row`."""
        reward = finite_number(row.row.get(REWARD_KEY)) if is_scored(row.row) else None
        digest = hash(row.text) if len(row.text) >= _SHORTEST_COMPARED else _NO_DIGEST
        integers = (row.line, *row.identity, len(row.text), digest)
        for column, value in zip(self._integers, integers, strict=True):
            column.append(value)
        self._rewards.append(float("nan") if reward is None else reward)
        self._has_tokens.append(row.has_tokens)

    def __iter__(self) -> Iterator[CheckedAttempt]:
        return map(self._at, range(len(self)))

    def by_task(self) -> Iterator[Sequence[CheckedAttempt]]:
        """Yield the attempts of each task, in the order of their lines."""
        _, tasks, _, _, _ = self._integers
        return self._grouped(tasks.__getitem__)

    def by_output(self) -> Iterator[Sequence[CheckedAttempt]]:
        """Yield the attempts of each output that is long enough to be compared."""
        *_, digests = self._integers
        return (group for group in self._grouped(digests.__getitem__) if group[0].is_comparable)

    def _grouped(self, key: Callable[[int], int]) -> Iterator[Sequence[CheckedAttempt]]:
        for _, places in groupby(sorted(range(len(self)), key=key), key):
            yield list(map(self._at, places))

    def _at(self, place: int) -> CheckedAttempt:
        line, task, repeat, characters, digest = (column[place] for column in self._integers)
        has_tokens = bool(self._has_tokens[place])
        return CheckedAttempt(line, task, repeat, self._rewards[place], characters, digest, has_tokens)
