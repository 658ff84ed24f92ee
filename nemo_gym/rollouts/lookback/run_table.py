"""Runs × environments: the figures of each run on each environment, the differences of any two, and what differs.

An environment is an agent of a run. Tasks are paired by their content, as in `comparison`. The figures of a cell are
those of the run's metrics, over all of its tasks; a paired difference is over the tasks that both runs have scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import (
    AgentMetrics,
    has_partial_rewards,
    mean,
    measure_interval,
    read_pass_curve,
    read_time_account,
    reward_by_k,
)
from nemo_gym.metrics.estimators import subtract
from nemo_gym.rollouts.lookback.account import RunAccount
from nemo_gym.rollouts.lookback.comparison import (
    TaskKeys,
    compute_interval,
    list_clusters,
    task_title,
)
from nemo_gym.rollouts.lookback.score_tables import (
    DEFAULT_SCORE,
    ScoredTask,
    label_runs,
    name_run,
    read_origin,
)
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.lookback.task_clusters import TaskKey, find_clusters, join_uneven
from nemo_gym.rollouts.output.expenses import read_expenses
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.inputs import refuse_repeats
from nemo_gym.rollouts.output.manifest import Manifest
from nemo_gym.rollouts.output.run_facts import KeyDifference, RunFacts, find_differences, read_facts
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rows.compose import ensure_identity
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.verdict import is_scored

if TYPE_CHECKING:
    import pandas

__all__ = ["read_run_table"]


@dataclass(frozen=True, slots=True)
class Cell:
    """The figures of a run on an environment."""

    tasks: int
    scored: int
    failed: int
    """Rollouts without a score."""
    mean: float | None
    low: float | None
    high: float | None
    """The 95 % interval of the mean, clustered by task, within the range of scores; None below two tasks."""
    best_at: dict[int, float]
    """k → the expected best score of k rollouts of a task, over the tasks with so many scores."""
    largest_k: int
    """The largest k that tables show: at least half of the tasks with a score have as many."""
    short_tasks: dict[int, int]
    """k → the tasks with fewer scores, which `best_at` leaves out."""
    is_pass: bool
    """Whether all scores are 0 or 1, so that `best_at` is pass@k."""
    tokens: float | None
    """Mean tokens of a rollout."""
    seconds: float | None
    """Mean seconds of a rollout."""
    cost: float | None
    """Mean cost of a rollout; None for a run without prices."""
    phases: dict[str, float]
    """Mean seconds by phase."""


@dataclass(frozen=True, slots=True)
class TableRun:
    """A run with its cells by environment."""

    path: Path
    label: str
    """The model, or the name of the file; no two runs have the same."""
    facts: RunFacts
    started_at: str | None
    cells: Mapping[str, Cell]
    account: RunAccount
    scores: Mapping[str, Mapping[TaskKey, ScoredTask]] = field(repr=False)
    spent: Mapping[str, Any] | None = None
    """The expenses in its manifest; None for a run that counted none."""


class PairedDifference(NamedTuple):
    """The mean difference of two runs over the tasks that both have scored."""

    environment: str
    before: str
    after: str
    difference: float
    """The mean of `after` less that of `before`."""
    low: float | None
    high: float | None
    tasks: int


@dataclass(frozen=True, slots=True)
class RunTable:
    """Several runs, side by side."""

    score: str
    runs: tuple[TableRun, ...]
    environments: tuple[str, ...]
    pairs: tuple[PairedDifference, ...]
    """Of any two runs, on each environment that both have; the earlier one of the table is `before`."""
    identities: tuple[object, ...] = field(repr=False)
    """The identity of each run's manifest; None without one."""

    @property
    def differences(self) -> list[KeyDifference]:
        """Return the keys of the configuration in which the runs differ."""
        return find_differences(self.identities)

    def select(self, places: Sequence[int]) -> RunTable:
        """Return the table of the runs at these places alone, in their order here."""
        places = sorted(places)
        runs = tuple(self.runs[place] for place in places)
        labels = {run.label for run in runs}
        return RunTable(
            self.score,
            runs,
            tuple(name for name in self.environments if any(name in run.cells for run in runs)),
            tuple(pair for pair in self.pairs if {pair.before, pair.after} <= labels),
            tuple(self.identities[place] for place in places),
        )

    def to_records(self) -> list[dict[str, Any]]:
        """Return a record for each run and environment, with all figures; lists of them make a data frame."""
        return [
            {
                "run": run.label,
                "path": str(run.path),
                "environment": name,
                "model": ", ".join(run.facts.models) or None,
                "started_at": run.started_at,
                "tags": ", ".join(run.facts.tags) or None,
                **{f"sampling/{name}": value for name, value in run.facts.sampling.items()},
                **{
                    key: value
                    for key, value in asdict(cell).items()
                    if key not in ("best_at", "largest_k", "short_tasks", "phases", "is_pass")
                },
                **{f"{'pass' if cell.is_pass else 'best'}@{k}": value for k, value in cell.best_at.items()},
                **{f"seconds/{phase}": seconds for phase, seconds in cell.phases.items()},
            }
            for run in self.runs
            for name, cell in run.cells.items()
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the records as a data frame. Raises `ConfigError` if pandas is not installed."""
        try:
            import pandas
        except ImportError as error:
            raise ConfigError(
                "pandas is not installed", code="no_pandas", remedy="Install it: pip install pandas"
            ) from error
        return pandas.DataFrame(self.to_records())

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON."""
        return {
            "score": self.score,
            "environments": list(self.environments),
            "runs": [
                {
                    "label": run.label,
                    "path": run.account.to_json()["path"],
                    "started_at": run.started_at,
                    **run.facts.to_json(),
                    "cells": {name: asdict(cell) for name, cell in run.cells.items()},
                    "notes": list(run.account.notes()),
                    "spent": run.spent,
                }
                for run in self.runs
            ],
            "pairs": [pair._asdict() for pair in self.pairs],
            "differences": [each._asdict() for each in self.differences],
        }


def read_run_table(
    paths: Sequence[Path], *, score: str = DEFAULT_SCORE, problems: list[str] | None = None
) -> RunTable:
    """Return the table of the runs with these files of scored rows, by the number `score` of their rows.

    If a run lacks its task rows, tasks are paired by their input alone. Raises `ConfigError` for a missing or damaged
    run, or one that is named twice. With `problems`, damaged lines are left out, and described there.
    """
    refuse_repeats(paths)
    whole = all(holds_text(RunFiles.from_existing(path).materialized_inputs) for path in paths)
    manifests = [read_origin(RunFiles.from_existing(path)) for path in paths]
    labels = label_runs(
        [name_run(path, each) for path, each in zip(paths, manifests, strict=True)],
        paths,
    )
    runs = tuple(
        _read_run(path, label, manifest, score, whole_tasks=whole, problems=problems)
        for path, label, manifest in zip(paths, labels, manifests, strict=True)
    )
    environments = tuple(dict.fromkeys(name for run in runs for name in sorted(run.cells)))
    pairs = tuple(_pair_all(runs, environments, whole_tasks=whole))
    identities = tuple(each.identity if each is not None else None for each in manifests)
    return RunTable(score, runs, environments, pairs, identities)


def _read_run(
    path: Path,
    label: str,
    manifest: Manifest | None,
    score: str,
    *,
    whole_tasks: bool,
    problems: list[str] | None,
) -> TableRun:
    with closing(StoredRun(path, problems)) as run:
        account = run.open_account()
        metrics: dict[str, AgentMetrics] = {}
        clusters = find_clusters(run.tasks)
        scores: dict[str, dict[TaskKey, ScoredTask]] = {}
        keys = TaskKeys(run, whole=whole_tasks)
        for identity in sorted({*run.scored, *run.list_failed()}):
            row: AnyRow = (run.scored if identity in run.scored else run.failures).row(identity)
            row = ensure_identity(row, identity)
            agent, key = keys.find(identity, row)
            record = metrics.setdefault(agent, AgentMetrics(scores=(score,), clusters=clusters)).add(row)
            value = record.measurements.get(score) if is_scored(row) else None
            if identity in run.scored:
                account.add_score(row, value)
            task = scores.setdefault(agent, {}).setdefault(key, ScoredTask(identity.task, task_title(row)))
            if value is not None:
                task.scores.append(value)
    starts = manifest.starts if manifest is not None else []
    return TableRun(
        path,
        label,
        read_facts(manifest.identity, starts) if manifest is not None else RunFacts(),
        starts[-1].get("started_at") if starts else None,
        {
            agent: _build_cell(agent, each.result()["agent_metrics"], score)
            for agent, each in sorted(metrics.items())
        },
        account,
        scores,
        read_expenses(starts),
    )


def _build_cell(agent: str, metrics: Mapping[str, Any], score: str) -> Cell:
    interval = measure_interval(metrics, score)
    times = read_time_account(agent, metrics)
    rollouts = metrics.get("count/rollouts", 0)
    scored = metrics.get("count/scored", 0)
    return Cell(
        tasks=metrics.get("count/tasks", 0),
        scored=scored,
        failed=rollouts - scored,
        mean=metrics.get(f"mean/{score}"),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        best_at={k: value / 100 for k, value in reward_by_k(metrics, "pass", score).items()},
        largest_k=max(read_pass_curve(metrics, score), default=1),
        short_tasks=reward_by_k(metrics, "short_tasks", score),
        is_pass=not has_partial_rewards(metrics, score),
        tokens=metrics.get("mean/total_tokens", metrics.get("mean/output_tokens")),
        seconds=times.seconds if times else None,
        cost=metrics.get("mean/cost"),
        phases=dict(times.phases) if times else {},
    )


def _pair_all(
    runs: Sequence[TableRun], environments: Sequence[str], *, whole_tasks: bool
) -> Iterator[PairedDifference]:
    for environment in environments:
        for before, after in combinations(runs, 2):
            tables = [
                {(environment, key): task for key, task in run.scores.get(environment, {}).items()}
                for run in (before, after)
            ]
            (own, other), _ = join_uneven(tables, whole_tasks=whole_tasks)
            shared = [key for key, task in own.items() if task.scores and key in other and other[key].scores]
            if shared:
                means, others = ([mean(tasks[key].scores) for key in shared] for tasks in (own, other))
                interval = compute_interval(
                    [*map(subtract, others, means)],
                    list_clusters([key for _, key in shared], whole_tasks=whole_tasks),
                )
                low, high = (interval.low, interval.high) if interval else (None, None)
                difference = subtract(mean(others), mean(means))
                yield PairedDifference(
                    environment, before.label, after.label, difference, low, high, len(shared)
                )
