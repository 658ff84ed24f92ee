"""Metrics of each repeat of a dataset, and their spread over the repeats.

Repeat i holds the rollouts with index i of all tasks. A run with one repeat has no such metrics.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nemo_gym.json_objects import finite_number
from nemo_gym.metrics._aggregate import describe
from nemo_gym.metrics.records import read_measurements
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import ROLLOUT_INDEX_KEY
from nemo_gym.rows.verdict import is_scored

ComputeRepeatMetrics = Callable[[Sequence[dict[str, Any]]], Mapping[str, Any]]
"""Maps the scored rows of one repeat to an author's metrics of it."""


def repeat_level_metrics(
    rows: Iterable[dict[str, Any]], compute_repeat_metrics: ComputeRepeatMetrics | None = None
) -> list[dict[str, Any]]:
    """Return one entry for each repeat with scored rows; none if there are fewer than two.

    An author's metric replaces the standard one of the same name. It is kept only if it is a finite number in every
    repeat, because a mean over some of the repeats would be another quantity.
    """
    by_repeat: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if is_scored(row):
            by_repeat[row[ROLLOUT_INDEX_KEY]].append(row)
    if len(by_repeat) < 2:
        return []
    repeats = sorted(by_repeat)
    own = [
        dict(compute_repeat_metrics(by_repeat[index])) if compute_repeat_metrics else {} for index in repeats
    ]
    named = {name for metrics in own for name in metrics}
    complete = {name for name in named if all(_number(metrics.get(name)) is not None for metrics in own)}
    return [
        {
            ROLLOUT_INDEX_KEY: index,
            **{name: value for name, value in _describe_rows(by_repeat[index]).items() if name not in named},
            **{name: metrics[name] for name in sorted(complete)},
        }
        for index, metrics in zip(repeats, own, strict=True)
    ]


def compute_across_repeats(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the statistics over repeats of every mean and of every metric of an author.

    The keys are `mean_across_repeats/<metric>`, and `median`, `std`, `min`, `max` and `se` (the standard error) in the
    same form.
    """
    metrics: dict[str, float] = {}
    names = [name for name in (entries[0] if entries else ()) if _is_estimate(name)]
    for name in names:
        values = [float(entry[name]) for entry in entries if name in entry]
        statistics = describe(name, values)
        if (spread := statistics.get(f"std/{name}")) is not None:
            statistics[f"se/{name}"] = spread / math.sqrt(len(values))
        metrics |= {key.replace("/", "_across_repeats/", 1): value for key, value in statistics.items()}
    return metrics


def _describe_rows(rows: Iterable[AnyRow]) -> dict[str, float]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, number in read_measurements(row).items():
            values[name].append(number)
    return {key: number for name in values for key, number in describe(name, values[name]).items()}


def _is_estimate(name: str) -> bool:
    return name != ROLLOUT_INDEX_KEY and not name.startswith(("max/", "min/", "median/", "std/"))


def _number(value: object) -> float | None:
    return None if isinstance(value, bool) else finite_number(value)
