"""The metric families of one score: pass@k, pass@1[avg-of-k], majority@k, their errors, and what they cover.

All values are times 100, except counts. `<score>` is the name of the score:

    pass@k/<score>             mean over tasks of the expected best of k rollouts
    pass@1[avg-of-k]/<score>   mean over tasks of the mean of their first k scores (of all, where there are fewer)
    majority@k/<score>         mean over tasks of the expected score of a vote among k rollouts
    <any of these>/std_err_across_tasks                    standard error of that mean, tasks being the clusters
    pass@1[avg-of-k]/<score>/std_dev_across_runs           spread of the means of runs 1 .. k
    pass@1[avg-of-k]/<score>/std_err_across_runs           the same over sqrt(k)
    coverage/<score>           share of the planned rollouts that have this score
    short_tasks@k/<score>      how many tasks have fewer than k scores; only where there are any

A task with fewer than k scores can't say what the best or the vote of k would be: pass@k and majority@k are over
the other tasks, and `short_tasks@k` tells how many are missing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nemo_gym.metrics.estimators import Ratio, expected_max_ratios, mean_in_percent, sample_standard_deviation
from nemo_gym.metrics.majority import majority_curve

STD_ERR_ACROSS_TASKS = "std_err_across_tasks"
STD_DEV_ACROSS_RUNS = "std_dev_across_runs"
STD_ERR_ACROSS_RUNS = "std_err_across_runs"
AVG_SAMPLE_STD_DEV = "avg_sample_std_dev"
STATISTICS = frozenset({STD_ERR_ACROSS_TASKS, STD_DEV_ACROSS_RUNS, STD_ERR_ACROSS_RUNS, AVG_SAMPLE_STD_DEV})
"""The last part of keys that tell the error or spread of the metric they are named after."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """One task's values of one score, in order of its rollouts; rollouts that have no such score are left out."""

    scores: Sequence[float]
    runs: Sequence[int]
    """Which run of the dataset each score belongs to: the rollout's index."""
    answers: Sequence[str | None] | None = None
    """What each rollout answered, for majority@k; None to leave majority@k out."""


@dataclass(frozen=True, slots=True)
class Planned:
    """How much was to be run: what coverage is a share of."""

    tasks: int
    rollouts: int
    """Of all tasks together."""


def score_families(
    name: str, tasks: Sequence[TaskScores], *, planned: Planned, max_k: int
) -> dict[str, float]:
    """All families of the score `name` for k = 1 .. max_k."""
    metrics: dict[str, float] = {}
    _add_family(metrics, "pass@{k}", name, tasks, max_k, _best_curve)
    _add_family(metrics, "pass@1[avg-of-{k}]", name, tasks, max_k, _average_curve)
    if any(task.answers is not None for task in tasks):
        _add_family(metrics, "majority@{k}", name, tasks, max_k, _vote_curve)
    _add_run_spread(metrics, name, run_averages(tasks))
    _add_coverage(metrics, name, tasks, planned, max_k)
    return metrics


def run_averages(tasks: Iterable[TaskScores]) -> list[float]:
    """The mean score, times 100, of each run of the dataset that has any, in the order of the runs."""
    by_run: defaultdict[int, list[float]] = defaultdict(list)
    for task in tasks:
        for run, score in zip(task.runs, task.scores, strict=True):
            by_run[run].append(score)
    return [mean_in_percent([Ratio(math.fsum(by_run[run]), len(by_run[run]))]) for run in sorted(by_run)]


def _add_family(
    metrics: dict[str, float],
    pattern: str,
    name: str,
    tasks: Iterable[TaskScores],
    max_k: int,
    curve_of: Callable[[TaskScores, int], list[Ratio]],
) -> None:
    values_by_k: list[list[Ratio]] = [[] for _ in range(max_k)]
    for task in tasks:
        for values, value in zip(values_by_k, curve_of(task, max_k), strict=False):
            values.append(value)
    for k, values in enumerate(values_by_k, start=1):
        if not values:
            continue
        key = f"{pattern.format(k=k)}/{name}"
        metrics[key] = mean_in_percent(values)
        spread = sample_standard_deviation([100.0 * ratio.value for ratio in values])
        if spread is not None:
            metrics[f"{key}/{STD_ERR_ACROSS_TASKS}"] = spread / math.sqrt(len(values))


def _best_curve(task: TaskScores, max_k: int) -> list[Ratio]:
    return expected_max_ratios(task.scores, min(max_k, len(task.scores)))


def _vote_curve(task: TaskScores, max_k: int) -> list[Ratio]:
    if task.answers is None:
        return []
    votes = majority_curve(task.answers, task.scores, min(max_k, len(task.scores)))
    return [Ratio(value, 1) for value in votes]


def _average_curve(task: TaskScores, max_k: int) -> list[Ratio]:
    if not task.scores:
        return []
    averages = [Ratio(math.fsum(task.scores[:k]), k) for k in range(1, len(task.scores) + 1)]
    return [averages[min(k, len(averages)) - 1] for k in range(1, max_k + 1)]


def _add_run_spread(metrics: dict[str, float], name: str, averages: Sequence[float]) -> None:
    for k in range(2, len(averages) + 1):
        spread = sample_standard_deviation(averages[:k])
        if spread is not None:
            key = f"pass@1[avg-of-{k}]/{name}"
            metrics[f"{key}/{STD_DEV_ACROSS_RUNS}"] = spread
            metrics[f"{key}/{STD_ERR_ACROSS_RUNS}"] = spread / math.sqrt(k)


def _add_coverage(
    metrics: dict[str, float], name: str, tasks: Sequence[TaskScores], planned: Planned, max_k: int
) -> None:
    scored = sum(len(task.scores) for task in tasks)
    if planned.rollouts:
        metrics[f"coverage/{name}"] = 100.0 * scored / planned.rollouts
    for k in range(1, max_k + 1):
        short = planned.tasks - sum(1 for task in tasks if len(task.scores) >= k)
        if short:
            metrics[f"short_tasks@{k}/{name}"] = short
