"""Estimators of metrics: functions of numbers, independent of the order of their input.

Sums use `math.fsum` and means `statistics.fmean`, which round once, so a shuffled or sharded run gives the same
digits. Equal values have their value as mean, and no spread. An undefined value, such as the standard deviation of one
sample, is None and never zero.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from statistics import fmean, median
from typing import TypeVar

T = TypeVar("T")
Task = TypeVar("Task", bound=Hashable)

_ROUNDING = 1e-13
"""The error of a mean, relative to it, that rounding makes of equal values."""
NORMAL_975 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution: half the width, in standard errors, of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided 95 % confidence interval, in the units of the estimate."""

    low: float
    high: float


class Clusters:
    """The samples of tasks with at least one sample, packed in eight bytes per sample and per task."""

    def __init__(self, clusters: Iterable[Sequence[float]]) -> None:
        self.samples = array("d")
        """The samples of all tasks."""
        self._ends = array("q", [0])
        for cluster in clusters:
            if cluster:
                self.samples.extend(cluster)
                self._ends.append(len(self.samples))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[Sequence[float]]:
        return (self.samples[start:end] for start, end in pairwise(self._ends))


_LARGE = 2.0**500
"""Sums and squares of larger numbers may leave the range of floats, so that they are scaled first."""


def scale_down(values: Sequence[float]) -> tuple[Sequence[float], float]:
    """Return `values` divided by a power of two, and that power: 1 unless a value is very large."""
    largest = max(map(abs, values), default=0.0)
    if largest < _LARGE:
        return values, 1.0
    power = math.ldexp(1.0, math.frexp(largest)[1] - 1)
    return [value / power for value in values], power


def mean(values: Sequence[float]) -> float:
    """Return the mean, also of values whose sum is beyond the range of floats. That of equal values is exact."""
    _, power, center = find_center(values)
    return center * power


def find_center(values: Sequence[float]) -> tuple[Sequence[float], float, float]:
    """Return values and power of `scale_down`, and the mean of the scaled values.

    The sum and the quotient are rounded. Without its bounds, the mean of 0.1 three times would be above 0.1, and equal
    values would have a spread.
    """
    least, most = min(values), max(values)
    small, power = (values, 1.0) if max(-least, most) < _LARGE else scale_down(values)
    return small, power, min(max(fmean(small), least / power), most / power)


def subtract(one: float, other: float) -> float:
    """Return one mean less another, to 14 significant digits of the larger.

    The rounding errors of equal means would otherwise be a difference of 1e-17, which has a sign; and 0.7 less 0.8
    would be below -0.1.
    """
    largest = max(abs(one), abs(other))
    difference = one - other
    if not largest or not math.isfinite(difference):
        return difference
    return round(difference, 13 - math.floor(math.log10(largest)))


def describe(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return mean, maximum, minimum, median and sample standard deviation; empty without values."""
    if not values:
        return {}
    if len(values) == 1:  # in a run with one rollout a task, those of every task
        center = most = least = middle = values[0]
        deviation, power = 0.0, 1.0
    else:
        most, least = max(values), min(values)
        small, power, center = find_center(values)
        center, middle = center * power, median(small) * power
        deviation = (sample_standard_deviation(small) or 0.0) * power
    described = {
        f"mean/{name}": center,
        f"max/{name}": most,
        f"min/{name}": least,
        f"median/{name}": middle,
        f"std/{name}": deviation,
    }
    return described if power == 1.0 else finite(described)


def finite(metrics: Mapping[str, T]) -> dict[str, T]:
    """Return the metrics without those beyond the range of floats, which JSON cannot represent."""
    return {
        name: value for name, value in metrics.items() if not isinstance(value, float) or math.isfinite(value)
    }


def sample_standard_deviation(values: Sequence[float]) -> float | None:
    """Return the square root of the unbiased sample variance, sum of (x - mean)^2 / (n - 1); None below 2 values.

    `statistics.stdev` sums fractions, which takes three times as long for the columns of a large run.
    """
    if len(values) < 2:
        return None
    small, power, center = find_center(values)
    return math.sqrt(math.fsum((value - center) ** 2 for value in small) / (len(values) - 1)) * power


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Return the probability that k of a task's samples, drawn without replacement, include a correct one.

    1 - C(n - c, k) / C(n, k) for c correct of n samples: the unbiased estimator of pass@k in Chen et al. 2021,
    "Evaluating Large Language Models Trained on Code", equation 1.
    """
    _require_draws(samples, k)
    if not 0 <= correct <= samples:
        raise ValueError(f"{correct} correct of {samples} samples is impossible")
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def compute_expected_max_at_k(scores: Sequence[float], k: int) -> float:
    """Return the expected best score of k of a task's samples, drawn without replacement: pass@k for any scores.

    This is the k-th value of `compute_expected_max_curve`.
    """
    _require_draws(len(scores), k)
    return compute_expected_max_curve(scores, k)[k - 1]


_NEGLIGIBLE = 1e-60


def compute_expected_max_curve(scores: Sequence[float], max_k: int) -> list[float]:
    """Return `compute_expected_max_at_k` for k = 1 .. max_k. `max_k` is at most the number of scores.

    With m_v scores at or below v, all k draws lie at or below v with probability P_k(v) = C(m_v, k) / C(n, k), so
    the expectation is the sum over the distinct scores v of v * (P_k(v) - P_k(next score below v)). For scores 0
    and 1 this is 1 - C(n - c, k) / C(n, k), the estimator of `pass_at_k`. The probabilities are updated from k - 1
    to k by the factor (m_v - k + 1) / (n - k + 1), the numerically stable form that Chen et al. 2021 give. One below
    1e-60 is 0 from there on, so that thousands of distinct scores take their number times its logarithm.
    """
    if max_k:
        _require_draws(len(scores), max_k)
    total = len(scores)
    distinct, at_or_below = _cumulative_counts(scores)
    probabilities = [1.0] * len(distinct)
    curve = []
    for k in range(1, max_k + 1):
        left = total - k + 1
        probabilities = [p * (m - k + 1) / left for p, m in zip(probabilities, at_or_below, strict=True)]
        if probabilities[0] < _NEGLIGIBLE:
            first = bisect_left(probabilities, _NEGLIGIBLE)
            del distinct[:first], at_or_below[:first], probabilities[:first]
        below = [0.0, *probabilities[:-1]]
        terms = (v * (p - b) for v, p, b in zip(distinct, probabilities, below, strict=True))
        curve.append(math.fsum(terms))
    return curve


def group_by_cluster(values: Sequence[float], clusters: Sequence[Hashable]) -> list[list[float]]:
    """Return tasks' values, those of one cluster together. `clusters`: that of each task; empty if each is its own."""
    together: defaultdict[Hashable, list[float]] = defaultdict(list)
    for cluster, value in zip(clusters or range(len(values)), values, strict=True):
        together[cluster].append(value)
    return list(together.values())


def compute_clustered_standard_error(clusters: Iterable[Sequence[float]]) -> float | None:
    """Return the standard error of the mean over all samples, clustered by task; None below 2 tasks.

    sqrt(G / (G - 1) * sum over tasks of (sum over samples of (x - mean))^2) / n, for n samples of G tasks: the
    clustered standard error of Miller 2024, "Adding Error Bars to Evals", with the factor G / (G - 1) for few
    clusters of Cameron and Miller 2015, "A Practitioner's Guide to Cluster-Robust Inference".
    With one sample a task it is the ordinary s / sqrt(n), with equally many the spread of task means over sqrt(G).
    Tasks without a sample are ignored.
    """
    groups = clusters if isinstance(clusters, Clusters) else Clusters(clusters)
    if len(groups) < 2:
        return None
    _, power, center = find_center(groups.samples)
    if power != 1.0:
        groups = Clusters([value / power for value in group] for group in groups)
    squares = math.fsum(math.fsum(value - center for value in group) ** 2 for group in groups)
    return math.sqrt(len(groups) / (len(groups) - 1) * squares) / len(groups.samples) * power


def compute_error_of_average(agents: Sequence[Mapping[Task, Sequence[float]]]) -> float | None:
    """Return the standard error of the mean of several agents' means; None if one of them has fewer than 2 tasks.

    `agents` are the samples of each by task. The variance is that of each mean, as in
    `compute_clustered_standard_error`, and the covariance of any two over the tasks that both have: agents of one run
    on the same tasks are not independent.
    """
    parts = []
    for tasks in agents:
        clusters = Clusters(tasks.values())
        if len(clusters) < 2:
            return None
        center, count = mean(clusters.samples), len(clusters.samples)
        parts.append(
            {task: math.fsum(value - center for value in own) / count for task, own in tasks.items() if own}
        )
    variance = math.fsum(_compute_covariance(one, other) for one, other in product(parts, parts))
    return math.sqrt(max(variance, 0.0)) / len(parts)


def _compute_covariance(one: Mapping[Task, float], other: Mapping[Task, float]) -> float:
    shared = one.keys() & other.keys()
    count = len(shared)
    return math.fsum(one[task] * other[task] for task in shared) * count / (count - 1) if count > 1 else 0.0


def confidence_interval(center: float, standard_error: float, clusters: int) -> Interval:
    """Return the 95 % interval center ± t * standard error, with Student's t for `clusters` - 1 degrees of freedom.

    Student's t replaces Miller's 1.96, which is too narrow for few tasks (Cameron and Miller 2015). The interval is not
    clipped to the score's range, and has zero width if all scores are equal.
    """
    half_width = student_t_975(clusters - 1) * standard_error
    return Interval(center - half_width, center + half_width)


def is_without_spread(error: float, center: float) -> bool:
    """Return whether the error of a mean, or its interval's width, is that of tasks that agree, up to rounding.

    Such an interval tells nothing: a few tasks that agree by chance hide the spread of the others.
    """
    return error <= _ROUNDING * max(1.0, abs(center))


def clip_interval(interval: Interval, least: float, most: float) -> Interval:
    """Return the part of an interval where means of rewards can be.

    `least` and `most` are the smallest and the largest reward; 0 and 1 are always possible. The viewer's page computes
    the same (`viewer/src/columns/estimators.ts`).
    """
    return Interval(max(interval.low, min(0.0, least)), min(interval.high, max(1.0, most)))


def student_t_975(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution, accurate to 0.2 %.

    Exact for 1 and 2 degrees of freedom; above, the Cornish-Fisher expansion around the normal quantile of
    Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", 26.7.5.
    """
    if degrees < 1:
        raise ValueError("an interval needs at least two tasks")
    if degrees == 1:
        return math.tan(math.pi * 0.475)
    if degrees == 2:
        return 0.95 / math.sqrt(2 * 0.975 * 0.025)
    z = NORMAL_975
    corrections = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(
        correction / float(degrees) ** power for power, correction in enumerate(corrections, start=1)
    )


def _require_draws(samples: int, k: int) -> None:
    if not 1 <= k <= samples:
        raise ValueError(f"cannot draw k={k} of {samples} samples without replacement")


def _cumulative_counts(scores: Sequence[float]) -> tuple[list[float], list[int]]:
    """Return the distinct scores in ascending order, and for each the number of scores at or below it."""
    counts = sorted(Counter(scores).items())
    return [score for score, _ in counts], list(accumulate(count for _, count in counts))
