"""The mergeable accumulator of a run's metrics, and the format of metrics in answers and files.

Keys of `agent_metrics`, where `<name>` is a number of the scored rows (`reward`, `reward_components/<part>`, a
verifier's own fields, `input_tokens` and other counts of `response.usage`):

    mean|max|min|median|std/<name>      over scored rollouts, in the number's own units; std is 0 for one value
    std_err|ci95_low|ci95_high/<name>   of the mean, clustered by task; absent below two tasks
    count/tasks, count/rollouts         as planned, or the number of those with rows if there is no plan
    count/scored, count/unscored_tasks  rollouts with a reward; tasks without any
    count/outcome/<outcome>             attempts by outcome; `missing` for planned rollouts without a row
    count/failure/<class>               failures by class
    <statistic>_across_repeats/<metric> of the metric's values in each repeat, if there are several
    count/imputed                       rollouts without a row that count as reward 0, if a run asks for it
    coverage/reward, pass@k/reward, …   see `nemo_gym.metrics._families`
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

from nemo_gym.failures import InputError
from nemo_gym.metrics._families import STD_ERR_ACROSS_TASKS, Planned, TaskScores, score_families
from nemo_gym.metrics._repeats import MetricsOfRepeat, compute_across_repeats, describe_repeats
from nemo_gym.metrics._table import RecordTable, TaskPlaces
from nemo_gym.metrics.estimators import (
    Clusters,
    Interval,
    clip_interval,
    compute_clustered_standard_error,
    compute_error_of_average,
    confidence_interval,
    describe,
    finite,
    is_without_spread,
    mean,
)
from nemo_gym.metrics.records import RolloutRecord, read_record
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import REWARD_KEY, TASK_INDEX_KEY

_ROUNDING = 1e-9


class AggregateResult(TypedDict):
    """The fields of the wire's `AggregateMetrics`."""

    group_level_metrics: Iterable[dict[str, Any]]
    """One entry per task, in order of the task index. An accumulator creates the entries lazily on each iteration,
    because all entries of a large run would take gigabytes."""
    agent_metrics: dict[str, Any]
    key_metrics: dict[str, Any]
    repeat_level_metrics: list[dict[str, Any]]
    """One entry per repeat of the dataset; none if it was run once."""


class AgentMetrics:
    """Accumulates the rows of one agent's run, in any order and any number of shards.

    `scores` are the numbers for which pass@k and related metrics are computed. `answer_key` is the row's field with
    the extracted answer; it adds majority@k. `clusters` maps the index of a task that repeats another one to the index
    of that one: standard errors take both for one cluster.
    """

    def __init__(
        self,
        *,
        scores: Collection[str] = (REWARD_KEY,),
        answer_key: str | None = None,
        clusters: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self._scores = tuple(scores)
        self._clusters = clusters
        self._answer_key = answer_key
        self._table = RecordTable()

    def add(self, row: AnyRow) -> RolloutRecord:
        """Add a scored or failed row, and return its record. Only its numbers and its answer are stored."""
        record = read_record(row, answer_key=self._answer_key)
        self.add_record(record)
        return record

    def add_record(self, record: RolloutRecord) -> None:
        """Add a row that was already read as a record."""
        self._table.append(record)

    def merge(self, other: AgentMetrics) -> None:
        """Add all records of another accumulator with the same settings."""
        if (self._scores, self._answer_key) != (other._scores, other._answer_key):
            raise ValueError("accumulators with different scores or answer keys cannot be merged")
        self._table.extend(other._table)

    def result(
        self, planned: Planned | None = None, of_repeat: MetricsOfRepeat | None = None
    ) -> AggregateResult:
        """Return the metrics of all added rows. Without a plan, the rollouts with rows count as planned.

        `of_repeat` returns an author's metrics of a repeat, as for `describe_repeats`.

        Raises:
            InputError: a rollout has two scored rows, or there are more rollouts than planned.
        """
        if not len(self._table) and planned is None:
            return AggregateResult(
                group_level_metrics=[], agent_metrics={}, key_metrics={}, repeat_level_metrics=[]
            )
        repeats = describe_repeats(self._table, of_repeat)
        agent_metrics = self._agent_metrics(planned) | compute_across_repeats(repeats)
        return AggregateResult(
            group_level_metrics=_TaskEntries(self._table),
            agent_metrics=agent_metrics,
            key_metrics=select_key_metrics(agent_metrics),
            repeat_level_metrics=repeats,
        )

    def rewards_by_task(self) -> Iterator[tuple[int, list[float]]]:
        """Yield the rewards of each task with a row. Raises `InputError` like `result`."""
        names = self._table.names
        for task in self._table.tasks():
            yield task.task, self._table.values(REWARD_KEY, task.places) if REWARD_KEY in names else []

    def rewards_by_cluster(self) -> dict[int, list[float]]:
        """Return the rewards of each task, those of equal tasks together."""
        together: defaultdict[int, list[float]] = defaultdict(list)
        for task, rewards in self.rewards_by_task():
            together[self._clusters.get(task, task)] += rewards
        return dict(together)

    def _agent_metrics(self, planned: Planned | None) -> dict[str, Any]:
        table = self._table
        sizes = Counter(len(task.places) for task in table.tasks())
        planned = _complete_plan(sizes, planned)
        metrics: dict[str, Any] = _count_metrics(table, planned)
        for name in table.names:
            clusters = Clusters(self._cluster_values(name))
            metrics |= describe(name, clusters.samples) | _estimate_mean_errors(name, clusters)
        for name in self._scores:
            scores = (self._task_scores(name, task) for task in table.tasks())
            metrics |= score_families(name, scores, planned=planned, max_k=max(sizes, default=0))
        return metrics

    def _cluster_values(self, name: str) -> Iterable[Sequence[float]]:
        """Return the numbers `name` of each task, those of equal tasks together."""
        values = ((task.task, self._table.values(name, task.places)) for task in self._table.tasks())
        if not self._clusters:
            return (each for _, each in values)
        together: defaultdict[int, list[float]] = defaultdict(list)
        for task, each in values:
            together[self._clusters.get(task, task)] += each
        return together.values()

    def _task_scores(self, name: str, task: TaskPlaces) -> TaskScores:
        table, places = self._table, self._table.places_with(name, task.places)
        return TaskScores(
            scores=table.values(name, task.places) if places else [],
            runs=[table.rollout(place) for place in places],
            answers=None if self._answer_key is None else [table.answer(place) for place in places],
            cluster=self._clusters.get(task.task, task.task) if self._clusters else None,
        )


class _TaskEntries:
    """The entries of `group_level_metrics`, created lazily from a table."""

    def __init__(self, table: RecordTable) -> None:
        self._table = table

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self._table.names
        for task in self._table.tasks():
            metrics: dict[str, Any] = {
                TASK_INDEX_KEY: task.task,
                "count/rollouts": len(task.places),
                "count/scored": self._table.count_scored(task.places),
            }
            for name in names:
                metrics |= describe(name, self._table.values(name, task.places))
            yield metrics

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and list(self) == list(other)


class AgentsAverage(NamedTuple):
    """The rewards of several agents, each of which weighs the same."""

    tasks: int
    """The tasks with rows, each once."""
    shares_tasks: bool
    """Whether several agents attempt a task."""
    mean: float | None
    """The mean of the agents' means; None if an agent has no reward."""
    interval: Interval | None
    """The interval of that mean, clustered by task, where rewards can be; None below two tasks or without a spread."""


def average_agents(agents: Sequence[AgentMetrics]) -> AgentsAverage:
    """Return the mean of the agents' mean rewards, with its interval."""
    rewards = [dict(agent.rewards_by_task()) for agent in agents]
    tasks = {task for own in rewards for task in own}
    shares_tasks = sum(map(len, rewards)) > len(tasks)
    samples = [[reward for own in by_task.values() for reward in own] for by_task in rewards]
    if not all(samples):
        return AgentsAverage(len(tasks), shares_tasks, None, None)
    clusters = [agent.rewards_by_cluster() for agent in agents]
    center, error = mean([*map(mean, samples)]), compute_error_of_average(clusters)
    if error is None or is_without_spread(error, center):
        return AgentsAverage(len(tasks), shares_tasks, center, None)
    count = len({cluster for own in clusters for cluster in own})
    least, most = min(map(min, samples)), max(map(max, samples))
    interval = clip_interval(confidence_interval(center, error, count), least, most)
    return AgentsAverage(len(tasks), shares_tasks, center, interval)


def aggregate(
    rows: Iterable[AnyRow],
    scores: Collection[str] = (REWARD_KEY,),
    of_repeat: MetricsOfRepeat | None = None,
) -> AggregateResult:
    """Return the metrics of one agent's scored and failed rows, with pass@k and related ones of `scores`."""
    metrics = AgentMetrics(scores=scores)
    for row in rows:
        metrics.add(row)
    return metrics.result(of_repeat=of_repeat)


def select_key_metrics(agent_metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return all means, and every coverage below 100 %."""
    return {
        key: value
        for key, value in agent_metrics.items()
        if key.startswith("mean/") or (key.startswith("coverage/") and value < 100.0)
    }


def _complete_plan(sizes: Mapping[int, int], planned: Planned | None) -> Planned:
    """Return the plan, or one from the rows. `sizes` maps a number of rollouts to the number of tasks with it."""
    seen = Planned(tasks=sum(sizes.values()), rollouts=sum(size * tasks for size, tasks in sizes.items()))
    if planned is None:
        return seen
    if planned.tasks < seen.tasks or planned.rollouts < seen.rollouts:
        raise InputError(
            f"{seen.tasks} tasks with {seen.rollouts} rollouts have rows, "
            f"but only {planned.tasks} with {planned.rollouts} were planned",
            code="more_than_planned",
            remedy="Remove the rows of other runs.",
        )
    return planned


def _count_metrics(table: RecordTable, planned: Planned) -> dict[str, int]:
    outcomes, failures = table.outcomes(), table.failures()
    outcomes["missing"] += planned.rollouts - outcomes.total()
    scored = Counter(table.count_scored(task.places) for task in table.tasks())
    counts = {
        "count/tasks": planned.tasks,
        "count/rollouts": planned.rollouts,
        "count/scored": sum(rollouts * tasks for rollouts, tasks in scored.items()),
        "count/unscored_tasks": planned.tasks - scored.total() + scored[0],
    }
    counts |= {f"count/outcome/{outcome}": count for outcome, count in sorted(outcomes.items()) if count}
    counts |= {f"count/failure/{kind}": count for kind, count in sorted(failures.items())}
    return counts


def _estimate_mean_errors(name: str, clusters: Clusters) -> dict[str, float]:
    error = compute_clustered_standard_error(clusters)
    if error is None:
        return {}
    interval = confidence_interval(mean(clusters.samples), error, len(clusters))
    return finite(
        {f"std_err/{name}": error, f"ci95_low/{name}": interval.low, f"ci95_high/{name}": interval.high}
    )


def is_error_of_mean(key: str) -> bool:
    """Return whether a metric is a standard error over tasks, or a bound of an interval that is made of one."""
    return key.startswith(("std_err/", "ci95_low/", "ci95_high/")) or key.endswith(f"/{STD_ERR_ACROSS_TASKS}")


def reward_interval(metrics: Mapping[str, Any]) -> Interval | None:
    """Return the interval of the mean reward in an agent's metrics, as `measure_interval` does."""
    return measure_interval(metrics, REWARD_KEY)


def measure_interval(metrics: Mapping[str, Any], score: str) -> Interval | None:
    """Return the interval of a score's mean in an agent's metrics, where scores can be.

    None below two tasks, and without a spread of the tasks: a few that agree by chance tell nothing of the others.
    """
    low, high = metrics.get(f"ci95_low/{score}"), metrics.get(f"ci95_high/{score}")
    if low is None or high is None or is_without_spread(high - low, low):
        return None
    return clip_interval(Interval(low, high), metrics[f"min/{score}"], metrics[f"max/{score}"])


def has_partial_rewards(metrics: Mapping[str, Any], score: str = REWARD_KEY) -> bool:
    """Return whether a score in an agent's metrics is neither 0 nor 1, so that `pass@k` is a best score.

    Between 0 and 1, a sum of scores equals the sum of their squares only if all are 0 or 1. Without scores: False.
    """
    count, average = metrics.get("count/scored"), metrics.get(f"mean/{score}")
    if not count or average is None:
        return False
    if metrics[f"min/{score}"] < 0 or metrics[f"max/{score}"] > 1:
        return True
    squares: float = metrics[f"std/{score}"] ** 2 * (count - 1) + count * average**2
    return bool(abs(count * average - squares) > _ROUNDING * count)


def reward_by_k(metrics: Mapping[str, Any], family: str, score: str = REWARD_KEY) -> dict[int, Any]:
    """Return `<family>@k/<score>` of an agent's metrics by k, the smallest first: `pass` or `short_tasks`."""
    form = re.compile(rf"{re.escape(family)}@(\d+)/{re.escape(score)}")
    matches = ((form.fullmatch(key), value) for key, value in metrics.items())
    return dict(sorted((int(match[1]), value) for match, value in matches if match))


def read_pass_curve(metrics: Mapping[str, Any], score: str = REWARD_KEY) -> dict[int, float]:
    """Return pass@k of an agent's metrics by k, in percent, up to the largest k that readers show.

    Above it, fewer than half of the tasks with a score have k of them: the curve would be that of other tasks.
    """
    short, tasks = reward_by_k(metrics, "short_tasks", score), metrics.get("count/tasks", 0)
    with_score = tasks - short.get(1, 0)
    return {
        k: value
        for k, value in reward_by_k(metrics, "pass", score).items()
        if not tasks or 2 * (tasks - short.get(k, 0)) >= with_score
    }
