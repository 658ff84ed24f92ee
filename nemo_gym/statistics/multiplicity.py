"""Many comparisons at once: adjusted p-values, and ranks with intervals.

With 20 comparisons at 5 % one is expected to show a difference where there is none. Holm's adjustment bounds the
probability of any such error, Benjamini and Hochberg's the expected share of errors among the differences shown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from nemo_gym.metrics import compute_clustered_standard_error, group_by_cluster, mean
from nemo_gym.statistics.distributions import student_t_cdf


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure"."""
    count = len(p_values)
    order = sorted(range(count), key=lambda place: p_values[place])
    scaled = ((count - rank) * p_values[place] for rank, place in enumerate(order))
    return _in_place(order, [min(1.0, p) for p in accumulate(scaled, max)])


def adjust_bonferroni(p_values: Sequence[float]) -> list[float]:
    """Return each p-value times the number of comparisons, at most 1: Dunn 1961, "Multiple Comparisons Among Means"."""
    return [min(1.0, len(p_values) * p) for p in p_values]


def adjust_benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values for the false discovery rate: Benjamini and Hochberg 1995.

    The name of the article is "Controlling the False Discovery Rate: A Practical and Powerful Approach to Multiple
    Testing".
    """
    count = len(p_values)
    order = sorted(range(count), key=lambda place: -p_values[place])
    scaled = (count / (count - rank) * p_values[place] for rank, place in enumerate(order))
    return _in_place(order, [min(1.0, p) for p in accumulate(scaled, min)])


def adjust_nothing(p_values: Sequence[float]) -> list[float]:
    """Return the p-values as they are."""
    return list(p_values)


ADJUSTMENTS: Mapping[str, Callable[[Sequence[float]], list[float]]] = {
    "holm": adjust_holm,
    "bonferroni": adjust_bonferroni,
    "benjamini-hochberg": adjust_benjamini_hochberg,
    "none": adjust_nothing,
}
"""The adjustments by name."""


def _in_place(order: Sequence[int], values: Sequence[float]) -> list[float]:
    placed = [0.0] * len(order)
    for place, value in zip(order, values, strict=True):
        placed[place] = value
    return placed


class PairedTest(NamedTuple):
    """The mean of tasks' differences, its standard error, and the p-value of no difference."""

    difference: float
    standard_error: float
    p_value: float


def compare_paired(differences: Sequence[float], clusters: Sequence[Hashable] = ()) -> PairedTest | None:
    """Return Student's paired t test of tasks' differences; None below two tasks.

    Differences that are all equal have a standard error of 0: the p-value is then 1 for none and 0 for others.
    `clusters`: that of each task, as equal tasks are one; without them all tasks differ.
    """
    groups = group_by_cluster(differences, clusters)
    error, count = compute_clustered_standard_error(groups), len(groups)
    if error is None:
        return None
    difference = mean(differences)
    if error <= 1e-12 * abs(difference):
        return PairedTest(difference, 0.0, 0.0 if difference else 1.0)
    p_value = 2 * (1 - student_t_cdf(abs(difference) / error, count - 1)) if error else 1.0
    return PairedTest(difference, error, min(1.0, p_value))


class RankInterval(NamedTuple):
    """A rank, 1 for the best, and the bounds that the comparisons leave."""

    rank: int
    best: int
    worst: int


def rank_with_intervals(means: Sequence[float], is_better: Callable[[int, int], bool]) -> list[RankInterval]:
    """Return the rank of each mean with its interval.

    `is_better(i, j)`: whether i was shown to be better than j, after an adjustment of all pairs. The rank of i is then
    at least 1 + the number of those shown to be better, and at most the number of all less those shown to be worse:
    Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks with Applications to Mobility across Neighbourhoods
    and Academic Achievement across Countries", section 3.
    """
    count = len(means)
    found = []
    for place, own in enumerate(means):
        above = sum(is_better(other, place) for other in range(count) if other != place)
        below = sum(is_better(place, other) for other in range(count) if other != place)
        found.append(RankInterval(1 + sum(other > own for other in means), 1 + above, count - below))
    return found
