"""Plans: the smallest difference that two runs can show, the width of an interval, and the repeats that they need.

The mean over K fixed tasks with n repeats each has the standard error √(w / (K n)), w the mean over tasks of the
variance of a task's rewards. For the mean of all tasks like these, the variance b of tasks' means adds b / K: Miller
2024, "Adding Error Bars to Evals", section 3. Two runs of the same tasks are paired by task, which removes what the
tasks' means have in common: section 4.2. The smallest difference that is found with a given power is that of a
two-sided test at 5 %: section 5, and Card et al. 2020, "With Little Power Comes Great Responsibility".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, fsum, sqrt
from statistics import NormalDist

from nemo_gym.metrics import mean

_NORMAL = NormalDist()
_ERROR = 0.05
_SEQUENTIAL = 1.25
"""The width of an interval for any time over that for a number of rollouts fixed before, in simulations."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The variances of rewards."""

    within: float
    """The mean over tasks of the variance of a task's rewards."""
    between: float = 0.0
    """The variance of tasks' means; of the differences of their means, if two runs are compared."""

    @classmethod
    def of_rate(cls, rate: float, *, generalizes: bool = False) -> Spread:
        """Return the spread of rewards of 0 and 1 with this mean that makes an interval widest.

        For the mean of these tasks it is that of tasks that are all alike. With `generalizes`, for that of all tasks
        like these, it is that of tasks that are always solved or never, where repeats tell nothing.
        """
        return cls(0.0, rate * (1 - rate)) if generalizes else cls(rate * (1 - rate))


def measure_spread(tasks: Sequence[Sequence[float]]) -> Spread | None:
    """Return the spread of a run's rewards, by task; None if no task has two.

    The variance within tasks is that of the tasks with two rewards or more. That between tasks is the variance of
    their means less what the variance within explains, at least 0 (one-way analysis of variance: Searle et al. 1992).
    """
    repeated = [_describe(rewards) for rewards in tasks if len(rewards) > 1]
    if not repeated:
        return None
    within = mean([variance for _, variance, _ in repeated])
    seen = [(mean(rewards), len(rewards)) for rewards in tasks if rewards]
    center = mean([own for own, _ in seen])
    if len(seen) < 2:
        return Spread(within)
    whole = fsum((own - center) ** 2 for own, _ in seen) / (len(seen) - 1)
    explained = within * fsum(1 / count for _, count in seen) / len(seen)
    return Spread(within, max(whole - explained, 0.0))


def bound_spread(tasks: Sequence[Sequence[float]]) -> Spread:
    """Return the largest spread that rewards without any may hide, with 95 % confidence; they lie in [0, 1].

    Of m pairs of rollouts that all agree, a share of up to 1 - 0.05^(1/m) may differ in truth: the limit of Clopper
    and Pearson 1934 without a success. The variance is half of that share, and that of tasks alike, which may be
    solved or not, the product of both shares.
    """
    pairs = sum(len(rewards) // 2 for rewards in tasks)
    others = min(_bound_unseen(sum(1 for rewards in tasks if rewards)), 0.5)
    return Spread(min(_bound_unseen(pairs), 0.5) / 2, others * (1 - others))


def _bound_unseen(trials: int) -> float:
    return 1.0 - _ERROR ** (1 / trials) if trials else 1.0


def _describe(rewards: Sequence[float]) -> tuple[float, float, int]:
    center = mean(rewards)
    return center, fsum((reward - center) ** 2 for reward in rewards) / (len(rewards) - 1), len(rewards)


def find_half_width(spread: Spread, tasks: int, repeats: int) -> float:
    """Return half the width of the 95 % interval of a mean."""
    return _NORMAL.inv_cdf(1 - _ERROR / 2) * sqrt(_variance(spread, tasks, repeats))


def find_smallest_difference(spread: Spread, tasks: int, repeats: int, power: float = 0.8) -> float:
    """Return the difference of two runs of the same tasks that is found with the probability `power`.

    `spread`: the variance within tasks of one run, and the variance of the differences of tasks' means.
    """
    both = Spread(2 * spread.within, spread.between)
    return _quantiles(power) * sqrt(_variance(both, tasks, repeats))


def find_power(spread: Spread, tasks: int, repeats: int, difference: float) -> float:
    """Return the probability with which a difference of two runs is found, in its own direction."""
    error = sqrt(_variance(Spread(2 * spread.within, spread.between), tasks, repeats))
    if not error:
        return 1.0
    return _NORMAL.cdf(abs(difference) / error - _NORMAL.inv_cdf(1 - _ERROR / 2))


def count_repeats_for_width(spread: Spread, tasks: int, half_width: float) -> int | None:
    """Return the repeats for an interval of this half-width; None if no number suffices."""
    return _count_repeats(spread, tasks, half_width / _NORMAL.inv_cdf(1 - _ERROR / 2))


def count_repeats_for_difference(
    spread: Spread, tasks: int, difference: float, power: float = 0.8
) -> int | None:
    """Return the repeats of each run with which a difference is found; None if no number suffices."""
    both = Spread(2 * spread.within, spread.between)
    return _count_repeats(both, tasks, difference / _quantiles(power))


def count_sequential_rollouts(spread: Spread, half_width: float) -> int:
    """Return about how many rollouts a run takes that stops at this half-width, of the mean over its tasks."""
    return ceil(spread.within * (_SEQUENTIAL * _NORMAL.inv_cdf(1 - _ERROR / 2) / half_width) ** 2)


def _count_repeats(spread: Spread, tasks: int, standard_error: float) -> int | None:
    left = tasks * standard_error**2 - spread.between
    return None if left <= 0 else max(1, ceil(spread.within / left - 1e-9))


def _variance(spread: Spread, tasks: int, repeats: int) -> float:
    return (spread.between + spread.within / repeats) / tasks


def _quantiles(power: float) -> float:
    return _NORMAL.inv_cdf(1 - _ERROR / 2) + _NORMAL.inv_cdf(power)
