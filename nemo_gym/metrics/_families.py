"""The metric families of one score: pass@k, pass@1[avg-of-k], majority@k, their standard errors and coverage.

All values are times 100, except counts, and rounded to 12 significant digits. `<score>` is the name of the score:

    pass@k/<score>             mean over tasks of the expected best of k rollouts
    pass@1[avg-of-k]/<score>   mean over tasks of the mean of their first k scores (of all, where there are fewer)
    majority@k/<score>         mean over tasks of the expected score of a vote among k rollouts
    <any of these>/std_err_across_tasks                    standard error of that mean, tasks being the clusters
    pass@1[avg-of-k]/<score>/std_dev_across_runs           spread of the means of runs 1 .. k
    pass@1[avg-of-k]/<score>/std_err_across_runs           the same over sqrt(k)
    coverage/<score>           share of the planned rollouts that have this score
    short_tasks@k/<score>      number of tasks with fewer than k scores; absent if there are none

pass@k and majority@k are undefined for a task with fewer than k scores. They are means over the other tasks, and
`short_tasks@k` is the number of tasks left out.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nemo_gym.metrics._majority import majority_curve
from nemo_gym.metrics.estimators import compute_expected_max_curve, finite, mean, sample_standard_deviation

STD_ERR_ACROSS_TASKS = "std_err_across_tasks"
STD_DEV_ACROSS_RUNS = "std_dev_across_runs"
STD_ERR_ACROSS_RUNS = "std_err_across_runs"
AVG_SAMPLE_STD_DEV = "avg_sample_std_dev"
STATISTICS = frozenset({STD_ERR_ACROSS_TASKS, STD_DEV_ACROSS_RUNS, STD_ERR_ACROSS_RUNS, AVG_SAMPLE_STD_DEV})
"""The last parts of keys that hold the error or spread of a metric."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """One task's values of one score, in order of its rollouts. Rollouts without the score are left out."""

    scores: Sequence[float]
    runs: Sequence[int]
    """The rollout index of each score, which is the number of its run over the dataset."""
    answers: Sequence[str | None] | None = None
    """The answer of each rollout; None to skip majority@k."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The planned size of a run; coverage is a share of it."""

    tasks: int
    rollouts: int
    """The number of rollouts of all tasks."""


def score_families(
    name: str, tasks: Iterable[TaskScores], *, planned: Planned, max_k: int
) -> dict[str, float]:
    """Return all families of the score `name` for k = 1 .. max_k. `tasks` is iterated once."""
    families = [
        _Family("pass@{k}", _best_curve, max_k),
        _Family("pass@1[avg-of-{k}]", _average_curve, max_k),
        _Family("majority@{k}", _vote_curve, max_k),
    ]
    runs, sizes = _Runs(), Counter[int]()
    for task in tasks:
        for family in families:
            family.add(task)
        runs.add(task)
        sizes[len(task.scores)] += 1
    metrics: dict[str, float] = {}
    for family in families:
        metrics |= family.metrics(name)
    metrics |= _run_spread(name, runs.averages()) | _coverage(name, sizes, planned, max_k)
    return finite(metrics)


def run_averages(tasks: Iterable[TaskScores]) -> list[float]:
    """Return the mean score times 100 of each run over the dataset, in order; runs without scores are left out."""
    runs = _Runs()
    for task in tasks:
        runs.add(task)
    return runs.averages()


class _Family:
    """The mean over tasks of `curve_of(task)`, for k = 1 .. max_k."""

    def __init__(self, pattern: str, curve_of: Callable[[TaskScores, int], list[float]], max_k: int) -> None:
        self._pattern = pattern
        self._curve_of = curve_of
        self._values = [array("d") for _ in range(max_k)]

    def add(self, task: TaskScores) -> None:
        for of_k, value in zip(self._values, self._curve_of(task, len(self._values)), strict=False):
            of_k.append(value)

    def metrics(self, name: str) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for k, of_k in enumerate(self._values, start=1):
            if not of_k:
                continue
            key = f"{self._pattern.format(k=k)}/{name}"
            metrics[key] = convert_to_percent(mean(of_k))
            spread = sample_standard_deviation(of_k)
            if spread is not None:
                metrics[f"{key}/{STD_ERR_ACROSS_TASKS}"] = convert_to_percent(spread / math.sqrt(len(of_k)))
        return metrics


class _Runs:
    """The scores of each run of the dataset."""

    def __init__(self) -> None:
        self._scores: defaultdict[int, array[float]] = defaultdict(lambda: array("d"))

    def add(self, task: TaskScores) -> None:
        for run, score in zip(task.runs, task.scores, strict=True):
            self._scores[run].append(score)

    def averages(self) -> list[float]:
        """Return the mean of each run times 100, in order of the runs."""
        means = (convert_to_percent(mean(scores)) for _, scores in sorted(self._scores.items()))
        return [value for value in means if math.isfinite(value)]


def convert_to_percent(value: float) -> float:
    """Return `value` times 100, to 12 significant digits, so that a half is 50.0 despite earlier rounding."""
    return float(f"{100.0 * value:.12g}")


def _best_curve(task: TaskScores, max_k: int) -> list[float]:
    return compute_expected_max_curve(task.scores, min(max_k, len(task.scores)))


def _vote_curve(task: TaskScores, max_k: int) -> list[float]:
    if task.answers is None:
        return []
    return majority_curve(task.answers, task.scores, min(max_k, len(task.scores)))


def _average_curve(task: TaskScores, max_k: int) -> list[float]:
    if not task.scores:
        return []
    averages = [mean(task.scores[:k]) for k in range(1, len(task.scores) + 1)]
    return [averages[min(k, len(averages)) - 1] for k in range(1, max_k + 1)]


def _run_spread(name: str, averages: Sequence[float]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for k in range(2, len(averages) + 1):
        spread = sample_standard_deviation(averages[:k])
        if spread is not None:
            key = f"pass@1[avg-of-{k}]/{name}"
            metrics[f"{key}/{STD_DEV_ACROSS_RUNS}"] = spread
            metrics[f"{key}/{STD_ERR_ACROSS_RUNS}"] = spread / math.sqrt(k)
    return metrics


def _coverage(name: str, sizes: Mapping[int, int], planned: Planned, max_k: int) -> dict[str, float]:
    """Return coverage and short tasks. `sizes` maps a number of scores to the number of tasks with it."""
    metrics: dict[str, float] = {}
    if planned.rollouts:
        scored = sum(scores * tasks for scores, tasks in sizes.items())
        metrics[f"coverage/{name}"] = convert_to_percent(scored / planned.rollouts)
    for k in range(1, max_k + 1):
        short = planned.tasks - sum(tasks for scores, tasks in sizes.items() if scores >= k)
        if short:
            metrics[f"short_tasks@{k}/{name}"] = short
    return metrics
