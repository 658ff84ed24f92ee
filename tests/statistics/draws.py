"""Draws of tasks with known means, as a collection makes them."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence

from nemo_gym.statistics.allocation import Allocation, TaskMoments, allocate_draws
from nemo_gym.statistics.sequential import Draw, SequentialMean


class Drawing:
    """Draws tasks, and adds them to a mean in their order."""

    def __init__(
        self, means: Sequence[float], half_width: float | None, seed: int, aim: float = 0.05
    ) -> None:
        self.mean = SequentialMean(len(means), half_width)
        self.drawn = 0
        self._means = means
        self._aim = half_width or aim
        self._rng = random.Random(seed)
        self._moments = TaskMoments(len(means))
        self._next = 0
        self._allocation: Allocation

    def draw(self) -> Draw:
        """Return a draw with its value: 1 with the probability of the task's mean, else 0."""
        if self.drawn >= self._next:
            self._allocation = allocate_draws(self._moments.predict(), self._aim)
            self._next = self.drawn + max(16, int(0.04 * self.drawn))
        allocation = self._allocation
        task = min(bisect_right(allocation.cumulated, self._rng.random()), len(self._means) - 1)
        value = float(self._rng.random() < self._means[task])
        self._moments.add(task, value)
        self.drawn += 1
        return Draw(task, allocation.probabilities[task], allocation.least, allocation.variance, value, value)

    def run(self, is_done: Callable[[SequentialMean], bool], most: int = 100_000) -> SequentialMean:
        """Draw until `is_done`, or `most` draws."""
        while self.drawn < most:
            if self.mean.add(self.draw()) and is_done(self.mean):
                break
        return self.mean


def is_narrow(half_width: float) -> Callable[[SequentialMean], bool]:
    """Return the rule that ends at an interval of this half-width."""
    return lambda mean: mean.interval.high - mean.interval.low <= 2 * half_width
