"""The difference between two runs of the same tasks, paired by task and agent.

Tasks are paired by their content, so the runs may have other orders, limits or models. A pair is of one agent: runs
that share agents are compared over those, whatever others they have. Runs that share none are paired by content alone,
where one agent attempts a task in either run: the agent has another name then. The attempts of a task are averaged, and
the tasks' differences are averaged: pairing removes the spread between easy and hard tasks from the error of the
difference (Miller 2024, "Adding Error Bars to Evals", section 4.2).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
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
from nemo_gym.metrics.estimators import is_without_spread, subtract
from nemo_gym.rollouts.lookback.account import RunAccount
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.lookback.task_clusters import AgentTask, TaskKey, join_uneven
from nemo_gym.rollouts.plan.task_content import task_digest
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.keys import REWARD_KEY
from nemo_gym.rows.numbering import GroupId, read_group
from nemo_gym.rows.parts import read_params
from nemo_gym.rows.verdict import is_scored

_TITLE_CHARS = 240


class TaskKeys:
    """Finds the keys of a run's tasks: tasks of one key in two runs are the same."""

    def __init__(self, run: StoredRun, *, whole: bool) -> None:
        """`whole`: all fields of a task identify it, not its input alone."""
        self._run = run
        self._whole = whole
        self._found: dict[GroupId, TaskKey] = {}
        self._seen: Counter[tuple[str, str]] = Counter()

    def find(self, identity: RolloutId, row: AnyRow) -> AgentTask:
        """Return the agent and the task of a row. Rows are given in the order of their identities."""
        group = read_group(row, identity)
        if group not in self._found:
            task = self._run.tasks.row(identity) if identity in self._run.tasks else row
            content = task_digest(task, whole=self._whole)
            self._found[group] = content, self._seen[group.agent, content]
            self._seen[group.agent, content] += 1
        return group.agent, self._found[group]


@dataclass(slots=True)
class TaskAttempts:
    """The attempts of one agent at one task in one run."""

    agent: str
    key: TaskKey
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

    def join(self, other: TaskAttempts) -> TaskAttempts:
        """Return the attempts at both of two equal tasks."""
        return replace(self, scores=[*self.scores, *other.scores], failed=self.failed + other.failed)


class TaskPair(NamedTuple):
    """A task with scores in both runs."""

    before: TaskAttempts
    after: TaskAttempts

    @property
    def difference(self) -> float:
        """Return the mean score after, less the mean score before."""
        return subtract(self.after.mean, self.before.mean)


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs, paired by task and agent."""

    pairs: tuple[TaskPair, ...]
    """The tasks with scores in both runs, the largest differences first, losses before gains of the same size."""
    unscored: tuple[TaskPair, ...]
    """The tasks of both runs without a score in one of them."""
    only_before: tuple[TaskAttempts, ...]
    only_after: tuple[TaskAttempts, ...]
    agents: tuple[str, ...] = ()
    """The agents whose tasks are compared, where the runs have others too."""
    other_agents: tuple[str, ...] = ()
    """The agents of one run only, whose tasks are not compared."""
    accounts: tuple[RunAccount, ...] = ()
    """The accounts of both runs, whose means by code are of the compared score."""
    clusters: tuple[Hashable, ...] = ()
    """The task of each pair: the interval takes pairs of one task, and of equal ones, for one cluster."""
    joined: int = 0
    """The pairs of a task that the runs have in different numbers: all attempts at its copies are those at one."""

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
        """Return the mean score after, less that before, over the paired tasks; None without pairs."""
        before, after = self.before, self.after
        return None if before is None or after is None else subtract(after, before)

    @property
    def interval(self) -> Interval | None:
        """Return the 95 % confidence interval of the difference, clustered by task, or None as `compute_interval`."""
        return compute_interval([pair.difference for pair in self.pairs], self.clusters)

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
            "joined": self.joined,
            "agents": list(self.agents),
            "other_agents": list(self.other_agents),
            "changed": [
                {
                    "agent": pair.before.agent,
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


def compute_interval(differences: Sequence[float], clusters: Sequence[Hashable] = ()) -> Interval | None:
    """Return the 95 % confidence interval of the mean of tasks' differences; None below 2 clusters or without a spread.

    `clusters`: that of each difference; without them each is of another task.
    """
    groups = group_by_cluster(differences, clusters)
    error = compute_clustered_standard_error(groups)
    if error is None or is_without_spread(error, center := mean(differences)):
        return None
    return confidence_interval(center, error, len(groups))


def list_clusters(keys: Iterable[TaskKey], *, whole_tasks: bool) -> list[Hashable]:
    """Return the cluster of each task: equal tasks are one, unless only their inputs are known."""
    return [content if whole_tasks else (content, number) for content, number in keys]


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
    before: Mapping[AgentTask, TaskAttempts],
    after: Mapping[AgentTask, TaskAttempts],
    *,
    whole_tasks: bool = True,
) -> RunComparison:
    """Pair the tasks of two runs by their agents and contents; by their contents alone if they share no agent.

    `whole_tasks`: as for `read_attempts`.
    """
    own, other = ({agent for agent, _ in tasks} for tasks in (before, after))
    shared = own & other
    if shared:
        compared = _pair_tasks(
            *({key: tasks[key] for key in tasks if key[0] in shared} for tasks in (before, after)),
            whole_tasks=whole_tasks,
        )
        agents = () if own == other else tuple(sorted(shared))
        return replace(compared, agents=agents, other_agents=tuple(sorted(own ^ other)))
    (before, left), (after, right) = _drop_agents(before), _drop_agents(after)
    return replace(
        _pair_tasks(before, after, whole_tasks=whole_tasks), other_agents=tuple(sorted(left | right))
    )


def _drop_agents(
    tasks: Mapping[AgentTask, TaskAttempts],
) -> tuple[dict[AgentTask, TaskAttempts], set[str]]:
    """Return the tasks that one agent attempts, without its name, and the agents of the other tasks."""
    agents = defaultdict(set)
    for agent, (content, _) in tasks:
        agents[content].add(agent)
    alone = {("", key): task for (_, key), task in tasks.items() if len(agents[key[0]]) == 1}
    return alone, {agent for agent, (content, _) in tasks if len(agents[content]) > 1}


def _pair_tasks(
    before: Mapping[AgentTask, TaskAttempts], after: Mapping[AgentTask, TaskAttempts], *, whole_tasks: bool
) -> RunComparison:
    (before, after), joined = join_uneven([before, after], whole_tasks=whole_tasks)
    both = {key: TaskPair(before[key], after[key]) for key in before if key in after}
    scored = {key: pair for key, pair in both.items() if pair.before.scores and pair.after.scores}
    ranked = sorted(
        scored.items(), key=lambda item: (-abs(item[1].difference), item[1].difference, item[1].before.index)
    )
    return RunComparison(
        pairs=tuple(pair for _, pair in ranked),
        clusters=tuple(list_clusters([key for (_, key), _ in ranked], whole_tasks=whole_tasks)),
        joined=joined,
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
) -> dict[AgentTask, TaskAttempts]:
    """Return the attempts of a run's agents at its tasks. An attempt without a finite `score` counts as failed.

    `whole_tasks`: all fields of a task identify it, not its input alone. The rows are added to `account`.
    """
    tasks: dict[AgentTask, TaskAttempts] = {}
    keys = TaskKeys(run, whole=whole_tasks)
    for identity in sorted({*run.scored, *run.list_failed()}):
        row = (run.scored if identity in run.scored else run.failures).row(identity)
        agent, key = found = keys.find(identity, row)
        if found not in tasks:
            title = task_title(run.tasks.row(identity) if identity in run.tasks else row)
            tasks[found] = TaskAttempts(agent, key, identity.task, title)
        value = read_measurements(row).get(score) if is_scored(row) else None
        if identity in run.scored and account is not None:
            account.add_score(row, value)
        if value is None:
            tasks[found].failed += 1
        else:
            tasks[found].scores.append(value)
    return tasks


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
