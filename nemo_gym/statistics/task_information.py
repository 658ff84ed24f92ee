"""Information of tasks: their difficulty, how well they tell models apart, a smaller set that ranks models the same.

Rewards lie in [0, 1]. A set of tasks is seen through the runs of several models with the same tasks.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import atanh, fsum, sqrt, tanh
from statistics import NormalDist

from nemo_gym.metrics.estimators import mean, subtract
from nemo_gym.statistics.distributions import find_rate_interval

Rewards = Mapping[str, Sequence[float]]
"""The rewards of a task by model."""
_Z = NormalDist().inv_cdf(0.975)
_LEAST_MODELS = 4
"""Fisher's interval of a correlation needs four points."""


class TaskKind(StrEnum):
    """The use of a task for telling models apart."""

    ALWAYS_RIGHT = "always right"
    """Every rollout of every model has the largest reward."""
    ALWAYS_WRONG = "always wrong"
    CONTRADICTORY = "contradictory"
    """Better models do worse: the interval of its discrimination is below 0. Often its answer is wrong."""
    TELLING = "telling"
    """Better models do better: the interval of its discrimination is above 0."""
    UNSURE = "unsure"
    """Too few rollouts or models to say."""


@dataclass(frozen=True, slots=True)
class TaskInformation:
    """The figures of one task."""

    rollouts: int
    difficulty: float
    """1 - the mean reward over models."""
    difficulty_interval: tuple[float, float]
    discrimination: float | None
    """The correlation over models of the task's mean with that of all others; None if either is constant."""
    discrimination_interval: tuple[float, float] | None
    kind: TaskKind


def describe_tasks(tasks: Sequence[Rewards]) -> list[TaskInformation]:
    """Return the figures of each task."""
    models = sorted({model for rewards in tasks for model in rewards})
    means = [{model: mean(rewards[model]) for model in rewards if rewards[model]} for rewards in tasks]
    totals = {model: [each[model] for each in means if model in each] for model in models}
    sums = {model: (fsum(values), len(values)) for model, values in totals.items()}
    return [_describe(rewards, own, sums) for rewards, own in zip(tasks, means, strict=True)]


def _describe(
    rewards: Rewards, own: Mapping[str, float], sums: Mapping[str, tuple[float, int]]
) -> TaskInformation:
    values = [reward for each in rewards.values() for reward in each]
    rests = {model: subtract(sums[model][0], own[model]) / max(sums[model][1] - 1, 1) for model in own}
    discrimination = correlate([own[model] for model in own], [rests[model] for model in own])
    interval = None if discrimination is None else find_correlation_interval(discrimination, len(own))
    low, high = find_rate_interval(fsum(values), len(values)) if values else (0.0, 1.0)
    return TaskInformation(
        rollouts=len(values),
        difficulty=1.0 - mean(list(own.values())) if own else 0.5,
        difficulty_interval=(1.0 - high, 1.0 - low),
        discrimination=discrimination,
        discrimination_interval=interval,
        kind=_classify(values, interval),
    )


def _classify(values: Sequence[float], interval: tuple[float, float] | None) -> TaskKind:
    if values and min(values) >= 1.0:
        return TaskKind.ALWAYS_RIGHT
    if values and max(values) <= 0.0:
        return TaskKind.ALWAYS_WRONG
    if interval is not None and interval[1] < 0:
        return TaskKind.CONTRADICTORY
    if interval is not None and interval[0] > 0:
        return TaskKind.TELLING
    return TaskKind.UNSURE


def correlate(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None if one of both is constant or there are fewer than two pairs."""
    if len(first) < 2:
        return None
    one, other = mean(first), mean(second)
    squares = fsum((x - one) ** 2 for x in first) * fsum((y - other) ** 2 for y in second)
    if squares <= 0:
        return None
    product = fsum((x - one) * (y - other) for x, y in zip(first, second, strict=True))
    return max(-1.0, min(1.0, product / sqrt(squares)))


def find_correlation_interval(correlation: float, pairs: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a correlation, by the z transformation of Fisher 1921; None below four pairs."""
    if pairs < _LEAST_MODELS:
        return None
    if abs(correlation) >= 1.0:
        return correlation, correlation
    z, error = atanh(correlation), 1 / sqrt(pairs - 3)
    return tanh(z - _Z * error), tanh(z + _Z * error)


@dataclass(frozen=True, slots=True)
class SmallerSet:
    """Tasks that rank models as all tasks do."""

    tasks: list[int]
    """Their places."""
    agreement: float
    """The share of resampled runs in which both rank the models the same."""
    agreement_interval: tuple[float, float]


def choose_smaller_set(
    tasks: Sequence[Rewards], *, agreement: float = 0.9, resamples: int = 200, seed: int = 0
) -> SmallerSet | None:
    """Return the first tasks, by the spread of their models' means, that rank the models as all tasks do.

    Rewards are resampled with replacement within each task and model (Efron 1979, the bootstrap), so that a ranking
    that chance made does not count. The size is the smallest of a series, each a quarter larger, whose agreement is
    reached. None if there are fewer than two models with all tasks, if these have the same mean in each task, or if
    none but the whole set agrees so often.
    """
    models = sorted(set.intersection(*(set(each) for each in tasks)) if tasks else ())
    usable = [place for place, each in enumerate(tasks) if all(each[model] for model in models)]
    if len(models) < 2:
        return None
    spreads = {place: _spread([mean(tasks[place][model]) for model in models]) for place in usable}
    if not any(spreads.values()):
        return None
    rng = random.Random(seed)
    order = sorted(usable, key=lambda place: -spreads[place])
    drawn = [
        [
            [mean(rng.choices(tasks[place][model], k=len(tasks[place][model]))) for model in models]
            for place in order
        ]
        for _ in range(resamples)
    ]
    wanted = _rank([fsum(mean(tasks[place][model]) for place in order) for model in models])
    size = min(len(models), len(order))
    while size < len(order):
        same = sum(_rank(_sum_first(one, size)) == wanted for one in drawn)
        if same >= agreement * resamples:
            return SmallerSet(order[:size], same / resamples, find_rate_interval(same, resamples))
        size = max(size + 1, size * 5 // 4)
    return None


def _sum_first(means: Sequence[Sequence[float]], size: int) -> list[float]:
    return [fsum(column) for column in zip(*means[:size], strict=True)]


def _rank(sums: Sequence[float]) -> list[int]:
    return sorted(range(len(sums)), key=lambda place: -sums[place])


def _spread(values: Sequence[float]) -> float:
    center = mean(values)
    return fsum((value - center) ** 2 for value in values)
