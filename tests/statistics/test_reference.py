"""A second implementation, written from the papers' formulas draw by draw, has the same limits to 1e-9."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import pytest

from nemo_gym.statistics.multiplicity import adjust_benjamini_hochberg, adjust_holm
from nemo_gym.statistics.sequential import Draw, SequentialMean
from tests.statistics.draws import Drawing

RATES = [random.Random(8).random() for _ in range(12)]
NORMAL = NormalDist()


class Reference:
    """The lower limit of a mean whose scores lie above `least`, for an aim: two gamblers against each claim.

    Scores are added one by one. `bound` is log(1 + y) from below, with the fourth term for the largest loss.
    """

    def __init__(self, aim: float) -> None:
        cells = math.ceil(20 / aim)
        self.aim, self.claims = aim, [cell / cells for cell in range(cells + 1)]
        self.wealths = [{claim: math.log(part) for claim in self.claims} for part in (0.9, 0.1)]
        self.rejected: set[float] = set()

    def look(self, scores: list[tuple[float, float, float]], information: float, highest: float) -> None:
        """Bet on the scores of a batch: each with its least value and its variance."""
        wanted = math.log(0.025)
        planned = (NORMAL.inv_cdf(0.975) * 1.2 / self.aim) ** 2
        left = max(planned - information, 0.05 * planned)
        for claim in self.claims:
            if claim in self.rejected or claim > highest:
                continue
            whole = 0.0
            for number, wealth in enumerate(self.wealths):
                before = wealth[claim]
                for score, least, variance in scores:
                    stake = self.stake(number, before + wanted, variance, left)
                    stake = min(stake, 0.75 / max(claim - least, 1e-9))
                    wealth[claim] += self.bound(stake * (score - claim), stake * (claim - least))
                whole += math.exp(min(wealth[claim], -wanted))
            if whole >= 1 / 0.025:
                self.rejected.add(claim)

    def stake(self, number: int, share: float, variance: float, left: float) -> float:
        if number == 1:
            return self.aim / (variance + self.aim**2)
        p = math.exp(min(max(share, math.log(1e-12)), math.log(0.998)))
        urgency = NORMAL.pdf(NORMAL.inv_cdf(p)) / p / math.sqrt(left)
        most = 0.9 if share < math.log(0.025) - 2 else 1.3
        return min(urgency, most * self.aim) / variance

    @staticmethod
    def bound(y: float, loss: float) -> float:
        x = max(loss, 0.05)
        curvature = (-math.log(1 - x) - x - x**2 / 2 - x**3 / 3) / x**4
        return y - y**2 / 2 + y**3 / 3 - curvature * y**4

    @property
    def limit(self) -> float:
        first = next((claim for claim in self.claims if claim not in self.rejected), None)
        below = [claim for claim in self.claims if first is None or claim < first]
        return below[-1] if below else 0.0


@pytest.mark.parametrize("seed", [1, 2])
def test_limits_and_estimate(seed: int) -> None:
    drawing, aim, tasks = Drawing(RATES, 0.12, seed), 0.12, len(RATES)
    draws = [drawing.draw() for _ in range(400)]
    mean, lower, upper = SequentialMean(tasks, aim), Reference(aim), Reference(aim)
    weights = total = squares = 0.0
    batch: list[Draw] = []
    for draw in draws:
        predicted, scale = mean.moments.predict().means, 1.0
        if weights:
            spread = squares - total**2 / weights
            scale = min(max((spread + 20) / (mean.draws + 20), 0.5), 2.0)
        batch.append(draw)
        if not mean.add(draw):
            continue
        center, error = (total / weights, 4 / math.sqrt(weights)) if weights else (0.5, 1.0)
        average = sum(predicted) / tasks
        below, above = [], []
        for each in batch:
            score = average + (each.low - predicted[each.task]) / (tasks * each.probability)
            variance = each.variance * scale
            below.append((score, average - max(predicted) / (tasks * each.least), variance))
            highest = average + (1 - min(predicted)) / (tasks * each.least)
            above.append((1 - score, 1 - highest, variance))
        lower.look(below, weights, center + error)
        upper.look(above, weights, 1 - center + error)
        for score, _, variance in below:
            weights, total, squares = (
                weights + 1 / variance,
                total + score / variance,
                squares + score**2 / variance,
            )
        batch = []
        assert mean.interval.low == pytest.approx(lower.limit, abs=1e-9)
        assert mean.interval.high == pytest.approx(1 - upper.limit, abs=1e-9)
    assert mean.draws > 350
    assert 0 < mean.interval.low < mean.estimate < mean.interval.high < 1
    assert mean.estimate == pytest.approx(total / weights, abs=1e-9)


def is_rejected_by_holm(p_values: list[float], number: int, level: float) -> bool:
    """Holm 1979: from the smallest p-value on, reject while it is at most level / (those that are left)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for place, each in enumerate(order):
        if p_values[each] > level / (len(order) - place):
            return False
        if each == number:
            return True
    raise AssertionError(number)


def is_rejected_by_benjamini_hochberg(p_values: list[float], number: int, level: float) -> bool:
    """Benjamini and Hochberg 1995: reject up to the last p-value that is at most its rank's share of the level."""
    ordered = sorted(p_values)
    passed = [p for rank, p in enumerate(ordered, 1) if p <= rank / len(ordered) * level]
    return bool(passed) and p_values[number] <= passed[-1]


@pytest.mark.parametrize("seed", range(5))
def test_adjusted_p_values_are_the_least_levels_of_rejection(seed: int) -> None:
    rng = random.Random(seed)
    p_values = [rng.random() ** 3 for _ in range(15)]
    for adjust, is_rejected in (
        (adjust_holm, is_rejected_by_holm),
        (adjust_benjamini_hochberg, is_rejected_by_benjamini_hochberg),
    ):
        for number, adjusted in enumerate(adjust(p_values)):
            assert is_rejected(p_values, number, min(adjusted + 1e-9, 1.0)) or adjusted == 1.0
            assert not is_rejected(p_values, number, adjusted - 1e-9)
