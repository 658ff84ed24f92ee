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

k takes every value up to 256, and then its doubles and the largest: a task with 40,000 rollouts has 265 values of k.
pass@k and majority@k are undefined for a task with fewer than k scores. They are means over the other tasks, and
`short_tasks@k` is the number of tasks left out.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count, takewhile

from nemo_gym.metrics.estimators import (
    compute_clustered_standard_error,
    compute_expected_max_curve,
    finite,
    group_by_cluster,
    mean,
    sample_standard_deviation,
    scale_down,
)

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
    cluster: int | None = None
    """The task that this one repeats, or its own index; None in a run without equal tasks."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The planned size of a run; coverage is a share of it."""

    tasks: int
    rollouts: int
    """The number of rollouts of all tasks."""


_EVERY_K = 256


def list_draws(max_k: int) -> list[int]:
    """Return the values of k up to `max_k`, for which metrics are computed."""
    return [
        *range(1, min(max_k, _EVERY_K) + 1),
        *takewhile(lambda k: k < max_k, (_EVERY_K << place for place in count(1))),
        *([max_k] if max_k > _EVERY_K else []),
    ]


def score_families(
    name: str, tasks: Iterable[TaskScores], *, planned: Planned, max_k: int
) -> dict[str, float]:
    """Return all families of the score `name` for k up to `max_k`. `tasks` is iterated once."""
    draws = list_draws(max_k)
    families = [
        _Family("pass@{k}", _best_curve, draws),
        _Family("pass@1[avg-of-{k}]", _average_curve, draws),
        _Family("majority@{k}", _vote_curve, draws),
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
    metrics |= _run_spread(name, runs.averages()) | _coverage(name, sizes, planned, draws)
    return finite(metrics)


def run_averages(tasks: Iterable[TaskScores]) -> list[float]:
    """Return the mean score times 100 of each run over the dataset, in order; runs without scores are left out."""
    runs = _Runs()
    for task in tasks:
        runs.add(task)
    return runs.averages()


class _Family:
    """The mean over tasks of `curve_of(task, draws)`: a value for each k of `draws` that the task has."""

    def __init__(
        self, pattern: str, curve_of: Callable[[TaskScores, Sequence[int]], list[float]], draws: Sequence[int]
    ) -> None:
        self._pattern, self._curve_of, self._draws = pattern, curve_of, draws
        self._values = [array("d") for _ in draws]
        self._clusters: list[list[int]] = [[] for _ in draws]
        """The cluster of each value; empty in a run without equal tasks."""

    def add(self, task: TaskScores) -> None:
        curve = self._curve_of(task, self._draws)
        for of_k, value in zip(self._values, curve, strict=False):
            of_k.append(value)
        if task.cluster is not None:
            for clusters, _ in zip(self._clusters, curve, strict=False):
                clusters.append(task.cluster)

    def metrics(self, name: str) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for k, of_k, clusters in zip(self._draws, self._values, self._clusters, strict=True):
            if not of_k:
                continue
            key = f"{self._pattern.format(k=k)}/{name}"
            metrics[key] = convert_to_percent(mean(of_k))
            error = _compute_error(of_k, clusters)
            if error is not None:
                metrics[f"{key}/{STD_ERR_ACROSS_TASKS}"] = convert_to_percent(error)
        return metrics


def _compute_error(values: Sequence[float], clusters: Sequence[int]) -> float | None:
    """Return the standard error of the mean of tasks' values; None below two tasks."""
    if clusters:
        return compute_clustered_standard_error(group_by_cluster(values, clusters))
    spread = sample_standard_deviation(values)
    return None if spread is None else spread / math.sqrt(len(values))


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


def _best_curve(task: TaskScores, draws: Sequence[int]) -> list[float]:
    possible = _list_possible(task, draws)
    curve = compute_expected_max_curve(task.scores, max(possible, default=0))
    return [curve[k - 1] for k in possible]


def _vote_curve(task: TaskScores, draws: Sequence[int]) -> list[float]:
    if task.answers is None:
        return []
    return majority_curve(task.answers, task.scores, _list_possible(task, draws))


def _average_curve(task: TaskScores, draws: Sequence[int]) -> list[float]:
    if not task.scores:
        return []
    possible = _list_possible(task, draws)
    whole = [mean(task.scores)] * (len(draws) - len(possible))
    return [mean(task.scores[:k]) for k in possible] + whole


def _list_possible(task: TaskScores, draws: Sequence[int]) -> Sequence[int]:
    return draws[: bisect_right(draws, len(task.scores))]


def _run_spread(name: str, averages: Sequence[float]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for k in list_draws(len(averages)):
        spread = sample_standard_deviation(averages[:k])
        if spread is not None:
            key = f"pass@1[avg-of-{k}]/{name}"
            metrics[f"{key}/{STD_DEV_ACROSS_RUNS}"] = spread
            metrics[f"{key}/{STD_ERR_ACROSS_RUNS}"] = spread / math.sqrt(k)
    return metrics


def _coverage(
    name: str, sizes: Mapping[int, int], planned: Planned, draws: Sequence[int]
) -> dict[str, float]:
    """Return coverage and short tasks. `sizes` maps a number of scores to the number of tasks with it."""
    metrics: dict[str, float] = {}
    if planned.rollouts:
        scored = sum(scores * tasks for scores, tasks in sizes.items())
        metrics[f"coverage/{name}"] = convert_to_percent(scored / planned.rollouts)
    for k in draws:
        short = planned.tasks - sum(tasks for scores, tasks in sizes.items() if scores >= k)
        if short:
            metrics[f"short_tasks@{k}/{name}"] = short
    return metrics


# --- majority@k -------------------------------------------------------------------------------------------------------
# majority@k: the exact expected score of a vote among k of a task's rollouts, independent of their order.
# Rollouts vote by their answer alone. The answer with the most votes wins; tied winners share the vote equally. An
# answer's score is the mean score of the task's rollouts that gave it. Rollouts without an answer do not vote; a
# draw without votes scores the mean of such rollouts. majority@k is the expected score over all C(n, k) draws of k
# of the n rollouts (the metric is the maj1@k of Lewkowycz et al. 2022, "Solving Quantitative Reasoning Problems with
# Language Models", as an expectation in place of one draw).


MAX_EXACT_VOTERS = 256
"""The maximum number of rollouts per task for the exact computation, which takes up to a few tenths of a second."""


def majority_curve(
    answers: Sequence[str | None], scores: Sequence[float], draws: Sequence[int]
) -> list[float]:
    """Return majority@k of one task for each k of `draws`. `answers[i]` is None if rollout i gave no answer.

    Above `MAX_EXACT_VOTERS` rollouts it is the mean over the disjoint blocks of k consecutive rollouts, an unbiased
    estimate of the same expectation.
    """
    if len(answers) != len(scores):
        raise ValueError(f"{len(answers)} answers for {len(scores)} scores")
    for k in draws:
        if not 1 <= k <= len(scores):
            raise ValueError(f"cannot draw k={k} of {len(scores)} rollouts without replacement")
    if len(scores) > MAX_EXACT_VOTERS:
        return [_block_estimate(answers, scores, k) for k in draws]
    return _compute_expected_curve(answers, scores, draws)


def majority_score(answers: Sequence[str | None], scores: Sequence[float]) -> float:
    """Return the score of one vote among all given rollouts."""
    by_answer, silent = _ballots(answers, scores)
    if not by_answer:
        return mean(silent)
    most = max(map(len, by_answer))
    return mean([mean(ballot) for ballot in by_answer if len(ballot) == most])


def _block_estimate(answers: Sequence[str | None], scores: Sequence[float], k: int) -> float:
    starts = range(0, len(scores) - k + 1, k)
    return mean([majority_score(answers[start : start + k], scores[start : start + k]) for start in starts])


def _compute_expected_curve(
    answers: Sequence[str | None], scores: Sequence[float], draws: Sequence[int]
) -> list[float]:
    scores, power = scale_down(scores)
    by_answer, silent = _ballots(answers, scores)
    counts = tuple(sorted(map(len, by_answer)))
    shares = _vote_shares(counts, len(silent))
    # Answers with the same number of votes have the same weight.
    score_of_votes: dict[int, float] = {
        votes: math.fsum(mean(ballot) for ballot in by_answer if len(ballot) == votes)
        for votes in set(counts)
    }
    silent_score = mean(silent) if silent else 0.0
    curve = []
    for k in draws:
        no_votes = math.comb(len(silent), k) / math.comb(len(scores), k)
        voted = (shares[votes][k - 1] * score for votes, score in score_of_votes.items())
        curve.append(math.fsum(chain(voted, (no_votes * silent_score,))) * power)
    return curve


def _ballots(answers: Sequence[str | None], scores: Sequence[float]) -> tuple[list[list[float]], list[float]]:
    """Return the scores grouped by answer, and the scores of rollouts without an answer."""
    by_answer: defaultdict[str, list[float]] = defaultdict(list)
    silent: list[float] = []
    for answer, score in zip(answers, scores, strict=True):
        (silent if answer is None else by_answer[answer]).append(score)
    return list(by_answer.values()), silent


@lru_cache(maxsize=1024)
def _vote_shares(counts: tuple[int, ...], silent: int) -> Mapping[int, tuple[float, ...]]:
    """Return, by number of votes, the expected share of the win of one such answer for each k."""
    multiplicity = Counter(counts)
    return {
        votes: _compute_winning_share(votes, _remove_votes(counts, votes), silent) for votes in multiplicity
    }


def _remove_votes(counts: tuple[int, ...], votes: int) -> tuple[int, ...]:
    place = counts.index(votes)
    return counts[:place] + counts[place + 1 :]


def _compute_winning_share(own: int, rivals: tuple[int, ...], silent: int) -> tuple[float, ...]:
    """The expected share of the win, for k = 1 .. n, of an answer with `own` of the n rollouts.

    Draws are counted by polynomials whose coefficient at X^d is the number of ways to draw d rollouts: (1 + X)^c
    draws any of an answer's c, its terms below X^m draw fewer than m. A polynomial is held as one integer, X being
    a power of two above every coefficient, so that the products run at the speed of integer multiplication.
    """
    total = own + sum(rivals) + silent
    width = total + 1  # No coefficient exceeds the number of all draws, 2^total.
    x = 1 << width
    wins_by_ties: defaultdict[int, int] = defaultdict(int)
    for winning in range(1, own + 1):
        own_draws = math.comb(own, winning) << (width * winning)
        for ties, draws in enumerate(_draws_by_ties(winning, rivals, silent, x)):
            wins_by_ties[ties] += own_draws * draws
    return tuple(
        math.fsum(
            _coefficient(wins, k, width) / ((ties + 1) * math.comb(total, k))
            for ties, wins in wins_by_ties.items()
        )
        for k in range(1, total + 1)
    )


def _draws_by_ties(winning: int, rivals: tuple[int, ...], silent: int, x: int) -> list[int]:
    """The draws of rivals and silent rollouts with no rival above `winning` votes, by how many reach it."""
    harmless = silent + sum(votes for votes in rivals if votes < winning)
    by_ties = [(1 + x) ** harmless]
    reach = x**winning
    for votes in rivals:
        if votes < winning:
            continue
        fewer = (1 + x) ** votes % reach
        equal = math.comb(votes, winning) * reach
        behind = [draws * fewer for draws in by_ties] + [0]
        level = [0] + [draws * equal for draws in by_ties]
        by_ties = [b + t for b, t in zip(behind, level, strict=True)]
    return by_ties


def _coefficient(polynomial: int, degree: int, width: int) -> int:
    return (polynomial >> (width * degree)) & ((1 << width) - 1)
