"""Many models on many environments: their means, all differences with one adjustment, ranks, and regressions.

Models are paired by task within each environment. With several environments their means weigh the same. Environments
that have tasks in common, as agents of one run on the same tasks, are not independent: the error of the mean over all
counts their covariance. All p-values, of each environment and of the mean over all, are adjusted together, so that the
chance of any wrong claim is bounded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import (
    Interval,
    compute_clustered_standard_error,
    confidence_interval,
    group_by_cluster,
    mean,
)
from nemo_gym.metrics.estimators import compute_error_of_average, is_without_spread, subtract
from nemo_gym.rollouts.lookback.comparison import list_clusters
from nemo_gym.rollouts.lookback.score_tables import (
    ScoreTable,
    read_tables,
    split_by_agent,
)
from nemo_gym.rollouts.lookback.task_clusters import TaskKey
from nemo_gym.rollouts.output.files import find_stem
from nemo_gym.statistics.multiplicity import (
    ADJUSTMENTS,
    PairedTest,
    RankInterval,
    compare_paired,
    rank_with_intervals,
)

__all__ = ["rank_runs"]

OVERALL = "overall"
LEVEL = 0.05
_ROUNDING = 1e-12
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two models on an environment, or on all."""

    environment: str
    first: str
    second: str
    difference: float
    """The mean of the first less that of the second."""
    p_value: float
    adjusted: float
    """The p-value after the adjustment for all comparisons."""
    tasks: int

    @property
    def is_shown(self) -> bool:
        """Return whether the models differ beyond doubt."""
        return self.adjusted < LEVEL


@dataclass(frozen=True, slots=True)
class RankedModel:
    """A model with its means and its rank."""

    label: str
    identity: str | None
    """The digest of the identity of its run."""
    means: Mapping[str, float]
    """By environment, and `overall`."""
    intervals: Mapping[str, Interval]
    """95 % intervals of all tasks like these, where there are two tasks."""
    rank: RankInterval


@dataclass(frozen=True, slots=True)
class Ranking:
    """Models, the best first, and all comparisons."""

    models: list[RankedModel]
    pairs: list[ComparedPair]
    environments: list[str]
    adjustment: str
    notes: list[str]

    def regressions(self, baseline: str) -> list[ComparedPair]:
        """Return where a model is worse than `baseline` beyond doubt."""
        return [
            pair
            for pair in self.pairs
            if pair.is_shown and baseline in (pair.first, pair.second)
            if (pair.difference < 0) is (pair.second == baseline)
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the ranking as JSON."""
        return {
            "models": [
                {
                    **asdict(model),
                    "intervals": {name: [each.low, each.high] for name, each in model.intervals.items()},
                    "rank": model.rank._asdict(),
                }
                for model in self.models
            ],
            "comparisons": [asdict(pair) | {"is_shown": pair.is_shown} for pair in self.pairs],
            "environments": self.environments,
            "adjustment": self.adjustment,
            "notes": self.notes,
        }


def rank_runs(paths: Sequence[Path], *, score: str | None = None, adjustment: str = "holm") -> Ranking:
    """Rank the models of several runs, or the agents of one. Raises `ConfigError` if there is nothing to compare."""
    tables = read_tables(paths, score)
    if len(tables) == 1:
        tables = split_by_agent(tables[0], find_stem(tables[0].path))
    if len(tables) < 2:
        raise ConfigError(
            f"{paths[0]} has one agent: there is nothing to rank",
            code="nothing_to_compare",
            remedy="Name the runs of two models or more.",
        )
    return rank_tables(tables, adjustment=adjustment)


def rank_tables(tables: Sequence[ScoreTable], *, adjustment: str = "holm") -> Ranking:
    """Rank models by their scores on the environments that all of them have."""
    shared = [
        name
        for name in tables[0].environments
        if all(_shared_tasks(tables, name) and name in table.environments for table in tables)
    ]
    if not shared:
        raise ConfigError(
            f"no task has a score in all of {', '.join(str(table.path) for table in tables)}",
            code="nothing_to_compare",
            remedy="Rank runs of the same tasks and the same agent.",
        )
    columns = {name: _align(tables, name) for name in shared}
    pairs = _compare_all(tables, columns, adjustment)
    wholes = [mean([mean(columns[name].means[place]) for name in shared]) for place in range(len(tables))]
    top = OVERALL if len(shared) > 1 else shared[0]
    better = {_order(pair) for pair in pairs if pair.environment == top and pair.is_shown}
    labels = [table.label for table in tables]
    ranks = rank_with_intervals(wholes, lambda one, other: (labels[one], labels[other]) in better)
    models = [
        _describe_model(table, place, columns, wholes[place], ranks[place])
        for place, table in enumerate(tables)
    ]
    models.sort(key=lambda model: (model.rank.rank, model.label))
    return Ranking(models, pairs, shared, adjustment, list(_notes(tables, columns)))


def _shared_tasks(tables: Sequence[ScoreTable], name: str) -> list[TaskKey]:
    first, *others = (table.environments.get(name, {}) for table in tables)
    return [key for key in first if all(key in other for other in others)]


class AlignedMeans(NamedTuple):
    """The mean scores of the tasks of an environment that all models have."""

    tasks: list[TaskKey]
    clusters: list[Hashable]
    """The cluster of each task: equal tasks are one."""
    means: list[list[float]]
    """By model, in the order of `tasks`."""


def _align(tables: Sequence[ScoreTable], name: str) -> AlignedMeans:
    keys = _shared_tasks(tables, name)
    whole = all(table.whole_tasks for table in tables)
    return AlignedMeans(
        keys,
        list_clusters(keys, whole_tasks=whole),
        [[mean(table.environments[name][key].scores) for key in keys] for table in tables],
    )


def _compare_all(
    tables: Sequence[ScoreTable], columns: Mapping[str, AlignedMeans], adjustment: str
) -> list[ComparedPair]:
    found: list[tuple[str, int, int, PairedTest, int]] = []
    for one, other in combinations(range(len(tables)), 2):
        by_task: list[dict[Hashable, list[float]]] = []
        counted: set[TaskKey] = set()
        for name, (tasks, clusters, means) in columns.items():
            differences = [*map(subtract, means[one], means[other])]
            if (test := compare_paired(differences, clusters)) is not None:
                found.append((name, one, other, test, len(differences)))
                by_task.append(_group_values(clusters, differences))
                counted |= {*tasks}
        if len(columns) > 1 and len(by_task) == len(columns):
            found.append((OVERALL, one, other, _combine(by_task), len(counted)))
    adjusted = ADJUSTMENTS[adjustment]([test.p_value for _, _, _, test, _ in found])
    return [
        ComparedPair(name, tables[one].label, tables[other].label, test.difference, test.p_value, p, count)
        for (name, one, other, test, count), p in zip(found, adjusted, strict=True)
    ]


def _group_values(clusters: Sequence[Hashable], values: Sequence[float]) -> dict[Hashable, list[float]]:
    together: defaultdict[Hashable, list[float]] = defaultdict(list)
    for cluster, value in zip(clusters, values, strict=True):
        together[cluster].append(value)
    return dict(together)


def _combine(environments: Sequence[Mapping[Hashable, Sequence[float]]]) -> PairedTest:
    """Return the test of the mean of environments' differences by cluster, by the normal distribution."""
    difference = mean([mean([*chain.from_iterable(each.values())]) for each in environments])
    error = compute_error_of_average(environments) or 0.0
    if error <= _ROUNDING * abs(difference):
        return PairedTest(difference, 0.0, 0.0 if difference else 1.0)
    return PairedTest(difference, error, 2 * _NORMAL.cdf(-abs(difference) / error))


def _order(pair: ComparedPair) -> tuple[str, str]:
    return (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)


def _describe_model(
    table: ScoreTable,
    place: int,
    columns: Mapping[str, AlignedMeans],
    whole: float,
    rank: RankInterval,
) -> RankedModel:
    means = {name: mean(column.means[place]) for name, column in columns.items()}
    errors = {
        name: compute_clustered_standard_error(group_by_cluster(column.means[place], column.clusters))
        for name, column in columns.items()
    }
    intervals = {
        name: confidence_interval(means[name], error, len({*columns[name].clusters}))
        for name, error in errors.items()
        if error is not None and not is_without_spread(error, means[name])
    }
    if len(columns) > 1:
        means[OVERALL] = whole
        if len(intervals) == len(columns):
            by_task = [_group_values(column.clusters, column.means[place]) for column in columns.values()]
            half = _NORMAL.inv_cdf(0.975) * (compute_error_of_average(by_task) or 0.0)
            intervals[OVERALL] = Interval(whole - half, whole + half)
    return RankedModel(table.label, table.identity, means, intervals, rank)


def _notes(tables: Sequence[ScoreTable], columns: Mapping[str, AlignedMeans]) -> list[str]:
    notes = []
    for name, (tasks, _, _) in columns.items():
        most = max(len(table.environments[name]) for table in tables)
        if len(tasks) < most:
            notes.append(f"{name}: {len(tasks):,} of {most:,} tasks have a score of every model, and count")
    left = {name for table in tables for name in table.environments} - set(columns)
    if left:
        notes.append(f"not compared, because a model lacks them: {', '.join(sorted(left))}")
    return [*notes, *dict.fromkeys(note for table in tables for note in table.notes)]
