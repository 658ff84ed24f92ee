"""Metrics of each repeat of a dataset, and their spread over the repeats.

Repeat i holds the rollouts with index i of all tasks. A run with one repeat has no such metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nemo_gym.json_objects import finite_number
from nemo_gym.metrics._table import RecordTable
from nemo_gym.metrics.estimators import describe
from nemo_gym.rows.keys import ROLLOUT_INDEX_KEY

MetricsOfRepeat = Callable[[int], Mapping[str, Any]]
"""Maps the index of a repeat to an author's metrics of its scored rows."""


def describe_repeats(table: RecordTable, of_repeat: MetricsOfRepeat | None = None) -> list[dict[str, Any]]:
    """Return one entry for each repeat with scored rows; none if there are fewer than two.

    An author's metric replaces the standard one of the same name. It is kept only if it is a finite number in every
    repeat, because a mean over some of the repeats would be another quantity.
    """
    by_repeat = table.scored_by_repeat()
    if len(by_repeat) < 2:
        return []
    own = {index: dict(of_repeat(index)) if of_repeat else {} for index in by_repeat}
    named = {name for metrics in own.values() for name in metrics}
    complete = sorted(
        name for name in named if all(_number(metrics.get(name)) is not None for metrics in own.values())
    )
    return [
        {
            ROLLOUT_INDEX_KEY: index,
            **{name: value for name, value in _describe(table, places).items() if name not in named},
            **{name: own[index][name] for name in complete},
        }
        for index, places in by_repeat.items()
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


def _describe(table: RecordTable, places: Sequence[int]) -> dict[str, float]:
    return {
        key: number
        for name in table.names
        for key, number in describe(name, table.values(name, places)).items()
    }


def _is_estimate(name: str) -> bool:
    return name != ROLLOUT_INDEX_KEY and not name.startswith(("max/", "min/", "median/", "std/"))


def _number(value: object) -> float | None:
    return None if isinstance(value, bool) else finite_number(value)
