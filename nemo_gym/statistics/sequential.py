"""The interval of a mean that is valid at every look, from draws of tasks in their order.

A draw takes task k of K with a known probability q and sees a value X in [0, 1]. Its score

    Z = mean of all predictions + (X - prediction of k) / (K q)

has the mean over the K tasks of their means as its expectation, whatever the predictions and probabilities, as long as
they come from earlier draws. It is the doubly robust score of Waudby-Smith et al. 2024, "Anytime-valid off-policy
inference for contextual bandits", section 2, and of Zrnic and Candès 2024, "Active Statistical Inference". Predictions
only make its variance small. The limits are those of `nemo_gym.statistics.betting`.

Draws are added in the order in which they were drawn, never in that of their completion: a value that takes longer
may differ from others. The limits hold at every number of draws at once, so any rule may end the draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log, sqrt
from statistics import NormalDist

from nemo_gym.metrics.estimators import Interval
from nemo_gym.statistics.allocation import Predictions, TaskMoments
from nemo_gym.statistics.betting import Bettor, MeanClaims, RecalculatedBets, ScoreSums, SteadyBets

_FIRST_BATCH, _GROWTH = 16, 0.04
"""The draws of a batch: at least 16, and 4 % of the draws before. Bets change between batches."""
_CELLS = 20
"""Points of the grid in the half-width that is wanted."""
_EVEN_CELLS = 400
_MOST_POINTS = 20_000
_MARGIN = 1.2
"""The width that the bets plan for, as a share of the aim: the rest is the cost of predictions."""
_TAIL = 0.05
"""The share of the plan's information that is expected to come when the plan is over."""
_RECALCULATED, _STEADY = 0.9, 0.1
"""The parts of the wealth. Recalculated bets give the width in most runs, steady ones an end to the others."""
_STEADY_AIMS = (0.01, 0.02, 0.04, 0.08, 0.16)
"""The distances from 1/2, by which a mean whose sign is wanted may differ."""
_CALIBRATION_DRAWS = 20.0
_FAR = 4.0
"""Standard errors above the estimate, beyond which no bet against a claim is worthwhile."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw of a task, and its value."""

    task: int
    probability: float
    """The probability q with which the task was drawn."""
    least: float
    """The smallest probability of any task at this draw."""
    variance: float
    """The variance of the score that was expected."""
    low: float
    """The value in [0, 1], or the least that it may be."""
    high: float
    """The value, or the largest that it may be."""


class SequentialMean:
    """The mean over tasks, and its limits after any number of draws."""

    def __init__(
        self,
        tasks: int,
        half_width: float | None,
        *,
        error: float = 0.05,
        predicts: bool = True,
    ) -> None:
        """`half_width`: the aim, None for the sign of the mean less 1/2. `error`: 1 - confidence.

        `predicts`: false for tasks that are themselves drawn at random; their values are the scores.
        """
        self.moments = TaskMoments(tasks)
        self.draws = 0
        """The draws that the limits include."""
        self._tasks, self._aim, self._predicts = tasks, half_width, predicts
        cells = _EVEN_CELLS if half_width is None else min(ceil(_CELLS / half_width), _MOST_POINTS)
        points = [point / cells for point in range(cells + 1)]
        even = [1 / len(_STEADY_AIMS)] * len(_STEADY_AIMS)
        parts = even if half_width is None else [_RECALCULATED, _STEADY]
        self._claims = tuple(MeanClaims(points, error / 2, parts) for _ in range(2))
        z = NormalDist().inv_cdf(1 - error / 2)
        self._wanted = (z * _MARGIN / half_width) ** 2 if half_width else 0.0
        self._start = log(error / 2)
        self._batch: list[Draw] = []
        self._weights = self._sum = self._squares = 0.0

    @property
    def interval(self) -> Interval:
        """Return the limits."""
        below, above = self._claims
        return Interval(below.low, 1.0 - above.low)

    @property
    def estimate(self) -> float:
        """Return the mean of the scores, weighted by their expected precision, within the limits."""
        limits = self.interval
        center = self._sum / self._weights if self._weights else 0.5
        return min(max(center, limits.low), limits.high)

    @property
    def variance_per_draw(self) -> float:
        """Return the mean variance of a score so far; 1/4 without a draw."""
        return self.draws / self._weights * self._calibrate() if self._weights else 0.25

    def count_left(self) -> int:
        """Return the draws that are still needed for the aim, as far as one can tell; 0 without an aim."""
        return ceil(max(self._wanted - self._weights, _TAIL * self._wanted) * self.variance_per_draw)

    def count_batch(self) -> int:
        """Return the draws of the batch that comes next."""
        return max(_FIRST_BATCH, int(_GROWTH * self.draws))

    def add(self, draw: Draw) -> bool:
        """Add the next draw. Return whether the limits have changed: they do at the end of a batch."""
        self._batch.append(draw)
        if len(self._batch) < self.count_batch():
            return False
        self._bet()
        return True

    def finish(self) -> None:
        """Let the limits include the draws of an incomplete batch. No draw may be added afterwards.

        The bets of a batch are fixed before it, so the wealth after a part of it is one more look at the same game.
        Later bets would depend on the end that was chosen.
        """
        if self._batch:
            self._bet()

    def _calibrate(self) -> float:
        """Return the observed variance of scores over the expected one, drawn towards 1."""
        center = self._sum / self._weights if self._weights else 0.0
        observed = self._squares - center * self._sum
        return min(max((observed + _CALIBRATION_DRAWS) / (self.draws + _CALIBRATION_DRAWS), 0.5), 2.0)

    def _bet(self) -> None:
        batch, self._batch = self._batch, []
        predicted = self.moments.predict() if self._predicts else _predict_nothing(self._tasks)
        scale = self._calibrate()
        bettors = self._choose_bettors()
        spread = _FAR / sqrt(self._weights) if self._weights else 1.0
        center = self._sum / self._weights if self._weights else 0.5
        for side, claims in enumerate(self._claims):
            sums = list(_sum_scores(batch, predicted, scale, is_upper=bool(side)))
            claims.bet(sums, bettors, (1.0 - center if side else center) + spread)
        mean = sum(predicted.means) / self._tasks
        for draw in batch:
            low, high = (_score(draw, value, predicted, mean) for value in (draw.low, draw.high))
            score, weight = (low + high) / 2, 1.0 / (draw.variance * scale)
            self._weights += weight
            self._sum += weight * score
            self._squares += weight * score * score
            if draw.low == draw.high:
                self.moments.add(draw.task, draw.low)
        self.draws += len(batch)

    def _choose_bettors(self) -> list[Bettor]:
        if self._aim is None:
            return [SteadyBets(aim) for aim in _STEADY_AIMS]
        left = max(self._wanted - self._weights, _TAIL * self._wanted)
        return [RecalculatedBets(self._aim, left, self._start), SteadyBets(self._aim)]


def _predict_nothing(tasks: int) -> Predictions:
    return Predictions([0.5] * tasks, [0.25] * tasks, [0.25] * tasks)


def _score(draw: Draw, value: float, predicted: Predictions, mean: float) -> float:
    return mean + (value - predicted.means[draw.task]) / (len(predicted.means) * draw.probability)


def _sum_scores(
    batch: Sequence[Draw], predicted: Predictions, scale: float, *, is_upper: bool
) -> list[ScoreSums]:
    """Return the sums of scores, by what is known of them beforehand; of 1 - score for the upper limit."""
    tasks = len(predicted.means)
    mean = sum(predicted.means) / tasks
    below = max(1.0 - each if is_upper else each for each in predicted.means)
    above = 1.0 - min(1.0 - each if is_upper else each for each in predicted.means)
    mirrored: Callable[[float], float] = (lambda score: 1.0 - score) if is_upper else (lambda score: score)
    groups: dict[tuple[float, float], ScoreSums] = {}
    for draw in batch:
        key = (draw.least, draw.variance)
        if key not in groups:
            center, weight = (1.0 - mean if is_upper else mean), 1.0 / (tasks * draw.least)
            groups[key] = ScoreSums(center - below * weight, center + above * weight, draw.variance * scale)
        groups[key].add(mirrored(_score(draw, draw.high if is_upper else draw.low, predicted, mean)))
    return list(groups.values())
