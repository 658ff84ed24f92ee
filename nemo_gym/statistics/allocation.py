"""The choice of the next task: with a known probability, and more often where the task's mean is uncertain.

A task's mean is predicted from its values so far, drawn towards the mean of all tasks as far as tasks resemble each
other (empirical Bayes: Morris 1983, "Parametric Empirical Bayes Inference"). Probabilities are proportional to the
spread of a task's next value around its prediction, as in Neyman 1934, "On the Two Different Aspects of the
Representative Method", and mixed with the uniform distribution, so that no value weighs too much.

Predictions and probabilities may be wrong without any effect on the validity of an interval: they decide its width.
Values lie in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import fsum, sqrt

_WITHIN, _WITHIN_WEIGHT = 0.15, 2.0
"""The variance of a task's values that is assumed at first, and its weight in degrees of freedom."""
_BETWEEN, _BETWEEN_WEIGHT = 0.08, 5.0
"""The variance of tasks' means that is assumed at first, and its weight in tasks."""
_OWN_WEIGHT = 4.0
"""The weight in values with which the variance that a task shares with others enters its own."""
_LEAST_RATIO = 0.02
_WEAKEST, _STRONGEST = 0.3, 100.0
"""Bounds of the weight, in values, of the mean of all tasks in a prediction."""
_LEAST_UNIFORM = 0.1
_LARGEST_BET = 0.8
"""The share of uniform draws lets a value move the wealth of the intended bet by at most about this share."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """The predicted means of tasks, and the spread of their values."""

    means: list[float]
    variances: list[float]
    """The variances of each task's values."""
    squares: list[float]
    """The mean squares of the next values' deviations from the predicted means."""


class TaskMoments:
    """The number, the sum and the sum of squares of each task's values."""

    def __init__(self, tasks: int) -> None:
        self.counts = [0] * tasks
        self.sums = [0.0] * tasks
        self.squares = [0.0] * tasks

    def add(self, task: int, value: float) -> None:
        """Add a value in [0, 1] of a task."""
        self.counts[task] += 1
        self.sums[task] += value
        self.squares[task] += value * value

    def predict(self) -> Predictions:
        """Return the predictions of all tasks. A task without a value has the mean of all."""
        deviations = [
            square - total * total / count if count else 0.0
            for count, total, square in zip(self.counts, self.sums, self.squares, strict=True)
        ]
        seen = [(total / count, count) for count, total in zip(self.counts, self.sums, strict=True) if count]
        center = (fsum(mean for mean, _ in seen) + 0.5) / (len(seen) + 1)
        freedom = sum(count - 1 for _, count in seen)
        within = (fsum(deviations) + _WITHIN * _WITHIN_WEIGHT) / (freedom + _WITHIN_WEIGHT)
        excess = fsum((mean - center) ** 2 - within / count for mean, count in seen)
        between = (max(excess, 0.0) + _BETWEEN * _BETWEEN_WEIGHT) / (len(seen) + _BETWEEN_WEIGHT)
        weight = min(max(within / between, _WEAKEST), _STRONGEST)
        means = [
            (total + weight * center) / (count + weight)
            for count, total in zip(self.counts, self.sums, strict=True)
        ]
        largest = [mean * (1.0 - mean) for mean in means]
        ratio = self._compare_spread(deviations, largest)
        variances = [
            (deviation + _OWN_WEIGHT * ratio * most) / (count + _OWN_WEIGHT)
            for count, deviation, most in zip(self.counts, deviations, largest, strict=True)
        ]
        unsure = (between * weight / (count + weight) for count in self.counts)
        squares = [variance + square for variance, square in zip(variances, unsure, strict=True)]
        return Predictions(means, variances, squares)

    def _compare_spread(self, deviations: list[float], largest: list[float]) -> float:
        """Return the variance within tasks as a share of that of rewards of 0 and 1 with the same means."""
        possible = fsum((count - 1) * most for count, most in zip(self.counts, largest, strict=True) if count)
        prior = _WITHIN * _WITHIN_WEIGHT
        return min(max((fsum(deviations) + prior) / (possible + prior), _LEAST_RATIO), 1.0)


@dataclass(frozen=True, slots=True)
class Allocation:
    """The probabilities with which the next tasks are drawn."""

    probabilities: list[float]
    cumulated: list[float]
    least: float
    """The smallest probability."""
    variance: float
    """The predicted variance of one draw's score (`nemo_gym.statistics.sequential`)."""


def allocate_draws(predictions: Predictions, aim: float) -> Allocation:
    """Return the probabilities of the next draws. `aim`: the half-width of the interval that the draws are for."""
    tasks = len(predictions.squares)
    spreads = [sqrt(square) for square in predictions.squares]
    whole = fsum(spreads)
    bet = aim / (whole / tasks) ** 2 if whole else 1.0
    uniform = min(max(bet / max(_LARGEST_BET - bet, 1e-3), _LEAST_UNIFORM), 1.0)
    shares = [spread / whole if whole else 1.0 / tasks for spread in spreads]
    probabilities = [(1.0 - uniform) * share + uniform / tasks for share in shares]
    variance = fsum(
        square / probability for square, probability in zip(predictions.squares, probabilities, strict=True)
    )
    return Allocation(probabilities, list(accumulate(probabilities)), min(probabilities), variance / tasks**2)


def allocate_evenly(tasks: int, variance: float) -> Allocation:
    """Return equal probabilities. `variance`: that of one draw's score."""
    share = 1.0 / tasks
    return Allocation([share] * tasks, list(accumulate([share] * tasks)), share, variance)
