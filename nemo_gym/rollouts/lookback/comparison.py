"""The difference between two runs of the same tasks, paired by task.

Tasks are paired by their content, so the runs may have other orders, limits, agents or models. The attempts of a task
are averaged, and the tasks' differences are averaged: pairing removes the spread between easy and hard tasks from the
error of the difference (Miller 2024, "Adding Error Bars to Evals", section 4.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.metrics import (
    Interval,
    compute_clustered_standard_error,
    confidence_interval,
    group_by_cluster,
    mean,
    read_measurements,
)
from nemo_gym.rollouts.lookback.account import RunAccount
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.plan.task_content import task_digest
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.keys import REWARD_KEY
from nemo_gym.rows.parts import read_params
from nemo_gym.rows.verdict import is_scored

_TITLE_CHARS = 240


@dataclass(slots=True)
class TaskAttempts:
    """The attempts of one task in one run."""

    index: int
    """The task's index in its run."""
    title: str
    """The beginning of the last message to the agent."""
    scores: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def mean(self) -> float:
        """Return the mean score of a task with scores."""
        return mean(self.scores)


TaskKey = tuple[str, int]
"""The digest of a task's content, and its number among tasks of the same content."""


class TaskPair(NamedTuple):
    """A task with scores in both runs."""

    before: TaskAttempts
    after: TaskAttempts

    @property
    def difference(self) -> float:
        """Return the mean score after, less the mean score before."""
        return self.after.mean - self.before.mean


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs, paired by task."""

    pairs: tuple[TaskPair, ...]
    """The tasks with scores in both runs, the largest differences first, losses before gains of the same size."""
    unscored: tuple[TaskPair, ...]
    """The tasks of both runs without a score in one of them."""
    only_before: tuple[TaskAttempts, ...]
    only_after: tuple[TaskAttempts, ...]
    accounts: tuple[RunAccount, ...] = ()
    """The accounts of both runs, whose means by code are of the compared score."""
    contents: tuple[str, ...] = ()
    """The digest of each pair's task: the interval takes pairs of equal tasks for one cluster."""

    @property
    def before(self) -> float | None:
        """Return the mean score before, over the paired tasks; None without pairs."""
        return mean([pair.before.mean for pair in self.pairs]) if self.pairs else None

    @property
    def after(self) -> float | None:
        """Return the mean score after, over the paired tasks; None without pairs."""
        return mean([pair.after.mean for pair in self.pairs]) if self.pairs else None

    @property
    def difference(self) -> float | None:
        """Return the mean difference over the paired tasks; None without pairs."""
        return mean([pair.difference for pair in self.pairs]) if self.pairs else None

    @property
    def interval(self) -> Interval | None:
        """Return the 95 % confidence interval of the difference, clustered by task; None below 2 pairs."""
        return compute_interval([pair.difference for pair in self.pairs], self.contents)

    @property
    def changed(self) -> tuple[TaskPair, ...]:
        """Return the pairs whose score differs, in the order of `pairs`."""
        return tuple(pair for pair in self.pairs if pair.difference)

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as JSON. Tasks without a partner or a score are listed by their indices."""
        interval = self.interval
        return {
            "before": self.before,
            "after": self.after,
            "difference": self.difference,
            "interval_95": [interval.low, interval.high] if interval else None,
            "tasks": len(self.pairs),
            "changed": [
                {
                    "task_before": pair.before.index,
                    "task_after": pair.after.index,
                    "before": pair.before.scores,
                    "after": pair.after.scores,
                    "difference": pair.difference,
                    "question": pair.before.title,
                }
                for pair in self.changed
            ],
            "without_score": [[pair.before.index, pair.after.index] for pair in self.unscored],
            "only_before": [task.index for task in self.only_before],
            "only_after": [task.index for task in self.only_after],
            "runs": [account.to_json() for account in self.accounts],
        }


def compute_interval(differences: Sequence[float], contents: Sequence[str] = ()) -> Interval | None:
    """Return the 95 % confidence interval of the mean of tasks' differences; None below 2 tasks.

    `contents`: the digest of each task; without them all tasks differ.
    """
    clusters = group_by_cluster(differences, contents)
    error = compute_clustered_standard_error(clusters)
    return None if error is None else confidence_interval(mean(differences), error, len(clusters))


def list_contents(keys: Iterable[TaskKey], *, whole_tasks: bool) -> list[str]:
    """Return the digests of tasks; none if only their inputs are known, which different tasks may share."""
    return [content for content, _ in keys] if whole_tasks else []


def compare(
    before: Path, after: Path, *, score: str = REWARD_KEY, problems: list[str] | None = None
) -> RunComparison:
    """Compare the field `score` of two runs, given by their files of scored rows.

    If a run lacks its task rows, tasks are paired by their input alone. Raises `ConfigError` for a missing or damaged
    run, and `InputError` for rows without indices. With `problems`, damaged lines are left out, and described there.
    """
    with closing(StoredRun(before, problems)) as first, closing(StoredRun(after, problems)) as second:
        has_tasks = len(first.tasks) > 0 and len(second.tasks) > 0
        accounts = first.open_account(), second.open_account()
        tasks = (
            read_attempts(run, score, whole_tasks=has_tasks, account=account)
            for run, account in zip((first, second), accounts, strict=True)
        )
        return replace(compare_tasks(*tasks, whole_tasks=has_tasks), accounts=accounts)


def compare_tasks(
    before: Mapping[TaskKey, TaskAttempts], after: Mapping[TaskKey, TaskAttempts], *, whole_tasks: bool = True
) -> RunComparison:
    """Pair the tasks of two runs. `whole_tasks`: as for `read_attempts`."""
    both = {key: TaskPair(before[key], after[key]) for key in before if key in after}
    scored = {key: pair for key, pair in both.items() if pair.before.scores and pair.after.scores}
    ranked = sorted(
        scored.items(), key=lambda item: (-abs(item[1].difference), item[1].difference, item[1].before.index)
    )
    return RunComparison(
        pairs=tuple(pair for _, pair in ranked),
        contents=tuple(list_contents([key for key, _ in ranked], whole_tasks=whole_tasks)),
        unscored=tuple(pair for key, pair in both.items() if key not in scored),
        only_before=tuple(task for key, task in before.items() if key not in after),
        only_after=tuple(task for key, task in after.items() if key not in before),
    )


def read_attempts(
    run: StoredRun,
    score: str = REWARD_KEY,
    *,
    whole_tasks: bool = True,
    account: RunAccount | None = None,
) -> dict[TaskKey, TaskAttempts]:
    """Return the attempts of a run's tasks. An attempt without a finite `score` counts as failed.

    `whole_tasks`: all fields of a task identify it, not its input alone. The rows are added to `account`.
    """
    tasks: dict[int, TaskAttempts] = {}
    keys: dict[int, TaskKey] = {}
    seen: Counter[str] = Counter()
    for identity in sorted({*run.scored, *run.list_failed()}):
        if identity.task not in tasks:
            row = _task_row(run, identity)
            digest = task_digest(row, whole=whole_tasks)
            keys[identity.task] = (digest, seen[digest])
            seen[digest] += 1
            tasks[identity.task] = TaskAttempts(identity.task, task_title(row))
        task, value = tasks[identity.task], None
        if identity in run.scored:
            row = run.scored.row(identity)
            value = read_measurements(row).get(score) if is_scored(row) else None
            if account is not None:
                account.add_score(row, value)
        if value is None:
            task.failed += 1
        else:
            task.scores.append(value)
    return {keys[index]: task for index, task in tasks.items()}


def _task_row(run: StoredRun, identity: RolloutId) -> AnyRow:
    rows = next(rows for rows in (run.tasks, run.scored, run.failures) if identity in rows)
    return rows.row(identity)


def task_title(row: AnyRow) -> str:
    """Return the beginning of the last message to the agent in a task row or a scored row."""
    texts = [" ".join(text.split()) for text in _texts(read_params(row).get("input"))]
    last = next((text for text in reversed(texts) if text), "")
    return last if len(last) <= _TITLE_CHARS else last[: _TITLE_CHARS - 1] + "…"


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a request's input, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, Mapping):
                yield from _texts(item.get("content") or item.get("text"))
