"""The mean length of rollouts, those that were cancelled in flight included.

A policy that drops by age cancels the longest rollouts before their lengths are known, so the mean of those that
finished is too small. The product-limit estimate (Kaplan and Meier, 1958) takes a rollout that was cancelled after some
seconds as one that is at least as long. It is exact if what cancels a rollout does not depend on its own length.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_STEP = 1.02
"""The ratio of the limits of a class of seconds: that of the estimate's resolution."""
_SHORTEST_S = 1e-3


@dataclass(slots=True)
class _Class:
    """Rollouts of about the same seconds."""

    finished: int = 0
    cancelled: int = 0
    tokens: int = 0
    """Of the finished ones."""


@dataclass(slots=True)
class LengthEstimate:
    """Counts of rollouts by their seconds. Its size does not depend on the number of rollouts."""

    _classes: dict[int, _Class] = field(default_factory=dict)

    def add_finished(self, seconds: float, tokens: int) -> None:
        found = self._find(seconds)
        found.finished += 1
        found.tokens += tokens

    def add_cancelled(self, seconds: float) -> None:
        """Count a rollout that was cancelled after `seconds` in flight."""
        self._find(seconds).cancelled += 1

    def measure_mean(self, in_flight: Iterable[float] = ()) -> float | None:
        """Return the mean tokens of a rollout; None before one has finished.

        `in_flight`: the seconds of those that run. Rollouts longer than every finished one count as the longest.
        """
        finished = {number: each for number, each in self._classes.items() if each.finished}
        unfinished = Counter({number: each.cancelled for number, each in self._classes.items()})
        unfinished.update(map(_classify, in_flight))
        left = unfinished.total() + sum(each.finished for each in finished.values())
        surviving, mean, longest = 1.0, 0.0, None
        for number in sorted({*finished, *unfinished}):
            if (each := finished.get(number)) is not None:
                share = surviving * each.finished / left
                longest = each.tokens / each.finished
                mean += share * longest
                surviving -= share
                left -= each.finished
            left -= unfinished[number]
        return None if longest is None else mean + surviving * longest

    def to_json(self) -> dict[str, list[int]]:
        """Return the counts as plain data."""
        return {
            str(number): [each.finished, each.cancelled, each.tokens]
            for number, each in self._classes.items()
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Sequence[int]]) -> LengthEstimate:
        """Return the estimate of `to_json`. Raises `TypeError` or `ValueError` for anything else."""
        return cls({int(number): _Class(*map(int, counts)) for number, counts in told.items()})

    def _find(self, seconds: float) -> _Class:
        return self._classes.setdefault(_classify(seconds), _Class())


def _classify(seconds: float) -> int:
    return math.ceil(math.log(max(seconds, _SHORTEST_S), _STEP))
