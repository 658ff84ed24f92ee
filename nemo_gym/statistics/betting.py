"""Wealths of bets against every possible mean: the evidence that a mean is larger, or smaller, than a number.

Against the claim "the mean is at most m" a gambler stakes a share λ ≥ 0 of the wealth on each score Z, which multiplies
it by 1 + λ (Z - m). If the claim is true, no way to choose λ from earlier scores makes the expected wealth grow, so it
reaches 1 / δ with a probability of at most δ, at any time (Ville 1939). A claim is rejected when it does: Waudby-Smith
and Ramdas 2023, "Estimating means of bounded random variables by betting", theorem 3.

The products of many scores are replaced by a lower bound, with y = λ (Z - m) ≥ -x:

    log(1 + y) ≥ y - y²/2 + y³/3 - κ(x) y⁴,    κ(x) = (-log(1 - x) - x - x²/2 - x³/3) / x⁴

For y ≥ 0 it is Taylor's polynomial or less, because κ ≥ 1/4. For -x ≤ y < 0 the rest -|y|⁴/4 - |y|⁵/5 - … divided by
y⁴ is largest in size at y = -x. So a batch of scores enters by five sums, and the wealth is never overstated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, log, log1p, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()
MOST_AT_STAKE = 0.75
"""The largest share of the wealth that one score may cost."""
_MOST_GAINED = 1.0
"""The largest share of the wealth that one score may add: the module's bound of log(1 + y) falls beyond y = 1."""
_SMALL_REACH = 0.05
_LEAST_REACH = 1e-9
_RICHEST = log(0.998)
_POOREST = log(1e-12)


def bound_curvature(reach: float) -> float:
    """Return κ(x) of the module's bound, for 0 ≤ x < 1."""
    x = max(reach, _SMALL_REACH)
    return (-log1p(-x) - x - x * x / 2 - x**3 / 3) / x**4


def find_urgency(log_share: float) -> float:
    """Return φ(x) / Φ(x) where log Φ(x) = `log_share`: how much is at stake for a gambler who needs all or nothing.

    A wealth with the share Φ(x) of the sum that is wanted at the end grows to it most surely like the price of a
    digital option, whose stake is φ(x) / Φ(x) per standard deviation of what is still to come.
    """
    share = exp(max(min(log_share, _RICHEST), _POOREST))
    return _NORMAL.pdf(_NORMAL.inv_cdf(share)) / share


@dataclass(slots=True)
class ScoreSums:
    """The sums of the powers 0 to 4 of scores with the same bounds and the same expected variance."""

    lowest: float
    """No score can be below it."""
    highest: float
    """No score can be above it."""
    variance: float
    sums: list[float] = field(default_factory=lambda: [0.0] * 5)

    def add(self, score: float) -> None:
        """Add a score."""
        power = 1.0
        for exponent in range(5):
            self.sums[exponent] += power
            power *= score

    def limit_stake(self, claim: float) -> float:
        """Return the largest stake against a claim, whatever the scores."""
        return min(
            MOST_AT_STAKE / max(claim - self.lowest, _LEAST_REACH),
            _MOST_GAINED / max(self.highest - claim, _LEAST_REACH),
        )

    def gain(self, claim: float, stake: float) -> float:
        """Return a lower bound of the sum of log(1 + stake · (score - claim))."""
        n, one, two, three, four = self.sums
        first = one - claim * n
        second = two - 2 * claim * one + claim**2 * n
        third = three - 3 * claim * two + 3 * claim**2 * one - claim**3 * n
        fourth = four - 4 * claim * three + 6 * claim**2 * two - 4 * claim**3 * one + claim**4 * n
        curvature = bound_curvature(stake * (claim - self.lowest))
        return stake * (first - stake * (second / 2 - stake * (third / 3 - stake * curvature * fourth)))


Bettor = Callable[[float, float], float]
"""Returns the stake λ from the logarithm of the wealth over the wealth that is wanted, and the variance of a score."""


@dataclass(frozen=True, slots=True)
class SteadyBets:
    """Bets that make the wealth grow fastest if the mean is `aim` above the claim."""

    aim: float

    def __call__(self, log_share: float, variance: float) -> float:
        return self.aim / (variance + self.aim**2)


@dataclass(frozen=True, slots=True)
class RecalculatedBets:
    """Bets of a gambler who wants the whole sum when the interval is due, recalculated from the wealth.

    They give a narrower interval at its due time than steady bets, and hold at any other time: Voráček and Orabona
    2025, "STaR-Bets: Sequential Target-Recalculating Bets for Tighter Confidence Intervals". The stake is bounded by
    that of `SteadyBets`, times 1.3, or 0.9 for a wealth that has shrunk much, which then always recovers.
    """

    aim: float
    """The half-width that is wanted."""
    left: float
    """The information, in draws over their variance, that is still to come."""
    start: float
    """The logarithm of the initial share."""

    def __call__(self, log_share: float, variance: float) -> float:
        most = 0.9 if log_share < self.start - 2.0 else 1.3
        urgency = find_urgency(log_share) / sqrt(self.left)
        return min(urgency, most * self.aim) / variance


class MeanClaims:
    """The wealths against the claims "the mean is at most m", for m on a grid from 0 to 1."""

    def __init__(self, points: Sequence[float], error: float, parts: Sequence[float] = (1.0,)) -> None:
        """`error`: δ. `parts`: the initial wealths of the gamblers, whose sum is 1."""
        self.points = points
        self.wanted = -log(error)
        self._wealths = [[log(part)] * len(points) for part in parts]
        self._rejected = bytearray(len(points))
        self.limit = 0
        """The number of claims that are rejected without a gap from the lowest.

        A claim that is rejected although it is true has a probability of at most δ. The smallest claim of the grid that
        is true is one claim, so with a probability of at least 1 - δ the mean is above every claim before the limit.
        """

    @property
    def low(self) -> float:
        """Return the lower limit of the mean."""
        return self.points[self.limit - 1] if self.limit else 0.0

    def bet(self, batch: Sequence[ScoreSums], bettors: Sequence[Bettor], highest: float) -> None:
        """Bet on a batch of scores, against the claims up to `highest`. All are fixed before the batch."""
        for place in range(self.limit, len(self.points)):
            claim = self.points[place]
            if claim > highest:
                break
            if not self._rejected[place]:
                self._bet_against(place, claim, batch, bettors)
        while self.limit < len(self.points) and self._rejected[self.limit]:
            self.limit += 1

    def _bet_against(
        self, place: int, claim: float, batch: Sequence[ScoreSums], bettors: Sequence[Bettor]
    ) -> None:
        whole = 0.0
        for wealths, bettor in zip(self._wealths, bettors, strict=True):
            before = wealths[place]
            for scores in batch:
                stake = bettor(before - self.wanted, scores.variance)
                stake = min(stake, scores.limit_stake(claim))
                wealths[place] += scores.gain(claim, stake)
            whole += exp(min(wealths[place], self.wanted))
        self._rejected[place] = whole >= exp(self.wanted)
