"""Many models on many environments: their means, all differences with one adjustment, ranks, and regressions.

Models are paired by task within each environment. With several environments their means weigh the same. All p-values,
of each environment and of the mean over all, are adjusted together, so that the chance of any wrong claim is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import fsum, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import (
    Interval,
    compute_clustered_standard_error,
    confidence_interval,
    group_by_cluster,
    mean,
)
from nemo_gym.rollouts.lookback.comparison import TaskKey, list_contents
from nemo_gym.rollouts.lookback.score_tables import (
    ScoredTask,
    ScoreTable,
    read_tables,
    split_by_agent,
)
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
        tables = split_by_agent(tables[0], tables[0].path.name.split(".")[0])
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
    whole = all(table.whole_tasks for table in tables)
    contents = {name: list_contents(_shared_tasks(tables, name), whole_tasks=whole) for name in shared}
    pairs = _compare_all(tables, columns, contents, adjustment)
    wholes = [mean([mean(columns[name][place]) for name in shared]) for place in range(len(tables))]
    top = OVERALL if len(shared) > 1 else shared[0]
    better = {_order(pair) for pair in pairs if pair.environment == top and pair.is_shown}
    labels = [table.label for table in tables]
    ranks = rank_with_intervals(wholes, lambda one, other: (labels[one], labels[other]) in better)
    models = [
        _describe_model(table, place, columns, contents, wholes[place], ranks[place])
        for place, table in enumerate(tables)
    ]
    models.sort(key=lambda model: (model.rank.rank, model.label))
    return Ranking(models, pairs, shared, adjustment, list(_notes(tables, columns)))


def _shared_tasks(tables: Sequence[ScoreTable], name: str) -> list[TaskKey]:
    first, *others = (table.environments.get(name, {}) for table in tables)
    return [key for key in first if all(key in other for other in others)]


def _align(tables: Sequence[ScoreTable], name: str) -> list[list[float]]:
    """Return the mean scores of the tasks that all models have, by model, in the same order."""
    keys = _shared_tasks(tables, name)

    def means(tasks: Mapping[TaskKey, ScoredTask]) -> list[float]:
        return [mean(tasks[key].scores) for key in keys]

    return [means(table.environments[name]) for table in tables]


def _compare_all(
    tables: Sequence[ScoreTable],
    columns: Mapping[str, list[list[float]]],
    contents: Mapping[str, list[str]],
    adjustment: str,
) -> list[ComparedPair]:
    found: list[tuple[str, int, int, PairedTest, int]] = []
    for one, other in combinations(range(len(tables)), 2):
        tests = []
        for name, means in columns.items():
            differences = [a - b for a, b in zip(means[one], means[other], strict=True)]
            if (test := compare_paired(differences, contents[name])) is not None:
                found.append((name, one, other, test, len(differences)))
                tests.append((test, len(differences)))
        if len(columns) > 1 and len(tests) == len(columns):
            whole = _combine([test for test, _ in tests])
            found.append((OVERALL, one, other, whole, sum(count for _, count in tests)))
    adjusted = ADJUSTMENTS[adjustment]([test.p_value for _, _, _, test, _ in found])
    return [
        ComparedPair(name, tables[one].label, tables[other].label, test.difference, test.p_value, p, count)
        for (name, one, other, test, count), p in zip(found, adjusted, strict=True)
    ]


def _combine(tests: Sequence[PairedTest]) -> PairedTest:
    """Return the test of the mean of independent differences, by the normal distribution."""
    difference = fsum(test.difference for test in tests) / len(tests)
    error = sqrt(fsum(test.standard_error**2 for test in tests)) / len(tests)
    if not error:
        return PairedTest(difference, 0.0, 0.0 if difference else 1.0)
    return PairedTest(difference, error, 2 * _NORMAL.cdf(-abs(difference) / error))


def _order(pair: ComparedPair) -> tuple[str, str]:
    return (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)


def _describe_model(
    table: ScoreTable,
    place: int,
    columns: Mapping[str, list[list[float]]],
    contents: Mapping[str, list[str]],
    whole: float,
    rank: RankInterval,
) -> RankedModel:
    means = {name: mean(values[place]) for name, values in columns.items()}
    clusters = {name: group_by_cluster(values[place], contents[name]) for name, values in columns.items()}
    errors = {name: compute_clustered_standard_error(values) for name, values in clusters.items()}
    intervals = {
        name: confidence_interval(means[name], error, len(clusters[name]))
        for name, error in errors.items()
        if error is not None
    }
    if len(columns) > 1:
        means[OVERALL] = whole
        if len(intervals) == len(columns):
            error = sqrt(fsum((each or 0.0) ** 2 for each in errors.values())) / len(columns)
            half = _NORMAL.inv_cdf(0.975) * error
            intervals[OVERALL] = Interval(whole - half, whole + half)
    return RankedModel(table.label, table.identity, means, intervals, rank)


def _notes(tables: Sequence[ScoreTable], columns: Mapping[str, list[list[float]]]) -> list[str]:
    notes = []
    for name, means in columns.items():
        most = max(len(table.environments[name]) for table in tables)
        if len(means[0]) < most:
            notes.append(
                f"{name}: {len(means[0]):,} of {most:,} tasks have a score of every model, and count"
            )
    left = {name for table in tables for name in table.environments} - set(columns)
    if left:
        notes.append(f"not compared, because a model lacks them: {', '.join(sorted(left))}")
    if any(table.is_weighted for table in tables):
        notes.append("a run with --until draws some tasks rarely: tasks without a draw are left out")
    return notes
