"""The metric functions that environments call from `compute_metrics`, on rows grouped by task.

`tasks[i]` holds the rows of task i in the order of their rollouts. Rows of failed attempts have no score and lower the
coverage.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, SupportsFloat

from nemo_gym.json_objects import finite_number
from nemo_gym.metrics._families import (
    AVG_SAMPLE_STD_DEV,
    STATISTICS,
    Planned,
    TaskScores,
    list_draws,
    run_averages,
    score_families,
)
from nemo_gym.metrics.estimators import mean, sample_standard_deviation
from nemo_gym.metrics.records import canonical_answer
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.verdict import is_failed, read_reward

ScoreFunction = Callable[[dict[str, Any]], Mapping[str, SupportsFloat | None]]
ScoreDicts = list[list[dict[str, float]]]
"""The named scores of every rollout of every task; an empty dict where an attempt failed."""

NO_ANSWER = "no_answer"
"""The score that is 1 for a rollout without an answer; computed if an answer key is given."""

PER_SAMPLE_AGGREGATE = "per_sample_aggregate"
"""The key that holds, by score, the mean times 100 of each run of the dataset."""


def compute_pass_majority_metrics(
    tasks: Sequence[Sequence[dict[str, Any]]],
    score_fn: ScoreFunction | None = None,
    answer_key: str | None = None,
) -> tuple[dict[str, Any], ScoreDicts, list[str], int]:
    """Return the families of `nemo_gym.metrics._families` for every score of the rows.

    `score_fn` returns a row's scores by name; None and NaN count as not scored. The default is the reward as the score
    `accuracy`. `answer_key` is the row's field with the extracted answer or None; it adds majority@k and the score
    `no_answer`.

    Returns the metrics, the scores they were computed from, the sorted names of the scores, and the largest k.
    """
    score_dicts = [
        [_read_scores(row, score_fn or _reward_as_accuracy, answer_key) for row in rows] for rows in tasks
    ]
    names = sorted({name for rollouts in score_dicts for scores in rollouts for name in scores})
    max_k = max(map(len, tasks), default=0)
    if not max_k:
        return {}, score_dicts, names, 0
    planned = Planned(tasks=len(tasks), rollouts=sum(map(len, tasks)))
    metrics: dict[str, Any] = {}
    per_run: dict[str, list[float]] = {}
    for name in names:
        samples = [
            _task_scores(name, rows, scores, answer_key)
            for rows, scores in zip(tasks, score_dicts, strict=True)
        ]
        metrics |= score_families(name, samples, planned=planned, max_k=max_k)
        metrics.pop(f"coverage/{name}", None)  # authors loop over the keys, and expect a k in each
        per_run[name] = run_averages(samples)
    metrics[PER_SAMPLE_AGGREGATE] = per_run
    return metrics, score_dicts, names, max_k


def compute_subset_metrics(
    tasks: Sequence[Sequence[dict[str, Any]]],
    subset_key: str,
    score_fn: ScoreFunction | None = None,
    answer_key: str | None = None,
) -> dict[str, Any]:
    """Return `compute_pass_majority_metrics` of each subset of the tasks, with keys prefixed by `<subset>/`.

    The field `subset_key` of a task's rows names its subset. Tasks without a value, or with an empty string, are in no
    subset.
    """
    subsets: defaultdict[str, list[Sequence[dict[str, Any]]]] = defaultdict(list)
    for rows in tasks:
        named = (row.get(subset_key) for row in rows)
        subset = next((value for value in named if value not in (None, "")), None)
        if subset is not None:
            subsets[str(subset)].append(rows)
    metrics: dict[str, Any] = {}
    for subset, members in subsets.items():
        subset_metrics = compute_pass_majority_metrics(members, score_fn, answer_key)[0]
        subset_metrics.pop(PER_SAMPLE_AGGREGATE, None)
        metrics |= {f"{subset}/{key}": value for key, value in subset_metrics.items()}
    return metrics


def add_avg_sample_std_dev(
    metrics: dict[str, Any],
    all_score_dicts: ScoreDicts,
    score_names: Iterable[str],
    max_k: int,
) -> None:
    """Add to `metrics` the standard deviation of a task's first k scores, averaged over tasks.

    k is above 1, and otherwise as in `list_draws`.
    The key is `pass@1[avg-of-k]/<score>/avg_sample_std_dev`. The value is in the score's own units, not times 100.
    """
    for name in score_names:
        values_by_task = [
            [scores[name] for scores in rollouts if name in scores] for rollouts in all_score_dicts
        ]
        for k in list_draws(max_k):
            spreads = [
                spread
                for values in values_by_task
                if (spread := sample_standard_deviation(values[:k])) is not None
            ]
            if spreads:
                metrics[f"pass@1[avg-of-{k}]/{name}/{AVG_SAMPLE_STD_DEV}"] = mean(spreads)


def highest_k_metrics(
    agent_metrics: Mapping[str, Any],
    pattern: str,
    score_names: Collection[str] | None = None,
    exclude_names: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the metrics `<pattern>/<score>` with the largest k for the chosen scores, without errors and spreads.

    `pattern` contains `{k}` once, as in `pass@{k}` or `easy/pass@1[avg-of-{k}]`.
    """
    if pattern.count("{k}") != 1:
        raise ValueError(f"the pattern {pattern!r} must contain {{k}} once, as in 'pass@{{k}}'")
    before, after = map(re.escape, pattern.split("{k}"))
    key_form = re.compile(rf"{before}(\d+){after}/(.+)")
    by_k: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for key, value in agent_metrics.items():
        match = key_form.fullmatch(key)
        if match is None:
            continue
        k, score = int(match[1]), match[2]
        is_chosen = (score_names is None or score in score_names) and score not in (exclude_names or ())
        if is_chosen and score.rsplit("/", 1)[-1] not in STATISTICS:
            by_k[k][key] = value
    return by_k[max(by_k)] if by_k else {}


def key_metrics(
    agent_metrics: Mapping[str, Any],
    *patterns: str,
    score_names: Collection[str] | None = None,
    exclude_names: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the mean reward and the `highest_k_metrics` of each pattern."""
    chosen = {name: agent_metrics[name] for name in ("mean/reward",) if name in agent_metrics}
    for pattern in patterns:
        chosen |= highest_k_metrics(agent_metrics, pattern, score_names, exclude_names)
    return chosen


def _reward_as_accuracy(row: AnyRow) -> Mapping[str, SupportsFloat | None]:
    return {"accuracy": read_reward(row)}


def _read_scores(row: dict[str, Any], score_fn: ScoreFunction, answer_key: str | None) -> dict[str, float]:
    if is_failed(row):
        return {}
    named = ((name, _score_number(name, value)) for name, value in score_fn(row).items())
    scores = {name: number for name, number in named if number is not None}
    if answer_key is not None:
        scores[NO_ANSWER] = float(row.get(answer_key) is None)
    return scores


def _score_number(name: str, score: SupportsFloat | None) -> float | None:
    if score is None:
        return None
    if not isinstance(score, SupportsFloat):
        raise TypeError(f"the score {name!r} is {score!r}; it must be a number, a boolean or None")
    return finite_number(float(score))


def _task_scores(
    name: str, rows: Sequence[dict[str, Any]], score_dicts: Sequence[dict[str, float]], answer_key: str | None
) -> TaskScores:
    runs = [run for run, scores in enumerate(score_dicts) if name in scores]
    return TaskScores(
        scores=[score_dicts[run][name] for run in runs],
        runs=runs,
        answers=None if answer_key is None else [canonical_answer(rows[run].get(answer_key)) for run in runs],
    )
