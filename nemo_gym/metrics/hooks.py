"""The route `POST /aggregate_metrics` of agents and resources servers, and the hooks that authors override.

`nemo_gym.metrics` does not import this module, because its models need pydantic.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel, Field

from nemo_gym.metrics._aggregate import aggregate, select_key_metrics
from nemo_gym.metrics.records import read_measurements
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import REWARD_KEY, ROLLOUT_INDEX_KEY, TASK_INDEX_KEY
from nemo_gym.rows.verdict import is_scored

ComputeMetrics = Callable[[list[list[dict[str, Any]]]], dict[str, Any]]
GetKeyMetrics = Callable[[dict[str, Any]], dict[str, Any]]

_HOOKS = ("aggregate_metrics", "compute_metrics", "compute_repeat_metrics", "get_key_metrics")
_INDEX_KEYS = {TASK_INDEX_KEY, ROLLOUT_INDEX_KEY}
PER_TASK_METRICS = "per_task_metrics"
"""The key of entries for `group_level_metrics` that `compute_metrics` may return, each with `_ng_task_index`."""


class AggregateMetricsRequest(BaseModel):
    """The body of `POST /aggregate_metrics`: the rows to aggregate."""

    verify_responses: list[dict[str, Any]]


class AggregateMetrics(BaseModel):
    """The answer of `POST /aggregate_metrics`."""

    group_level_metrics: list[dict[str, Any]] = Field(default_factory=list)
    """One entry per task."""
    agent_metrics: dict[str, Any] = Field(default_factory=dict)
    """Metrics over all tasks."""
    key_metrics: dict[str, Any] = Field(default_factory=dict)
    """The most important entries of `agent_metrics`."""
    repeat_level_metrics: list[dict[str, Any]] = Field(default_factory=list)
    """One entry per repeat of the dataset; none if it was run once."""


class MetricHooks(BaseModel):
    """The answer of `GET /aggregate_metrics`."""

    has_own: bool
    """False if all metrics are the standard ones, which callers compute without sending the rows."""


def compute_aggregate_metrics(
    verify_responses: Sequence[AnyRow],
    compute_metrics_fn: ComputeMetrics | None = None,
    get_key_metrics_fn: GetKeyMetrics | None = None,
    compute_repeat_metrics_fn: ComputeMetrics | None = None,
) -> AggregateMetrics:
    """Return the aggregate metrics of one run's scored and failed rows.

    `compute_metrics_fn` gets the scored rows, grouped by `_ng_task_index` and ordered by `_ng_rollout_index`. Tasks
    without a scored row are left out of its input and counted in `count/unscored_tasks`. Its result is added to
    `agent_metrics`; if the result is empty, pass@k of the reward is added. `get_key_metrics_fn` selects `key_metrics`.
    `compute_repeat_metrics_fn` gets the scored rows of one repeat in the same form; its metrics are added to
    `repeat_level_metrics`, and their statistics over the repeats to `agent_metrics`. Rows without a task index belong
    to task 0; rows without a rollout index are numbered in order.
    """
    rows = list(_number_rows(verify_responses))
    custom = dict(compute_metrics_fn(group_by_task(rows))) if compute_metrics_fn and rows else {}
    per_task = custom.pop(PER_TASK_METRICS, None) or []
    of_repeat = partial(_measure_repeat, rows, compute_repeat_metrics_fn)
    result = aggregate(rows, () if custom else (REWARD_KEY,), of_repeat)
    groups = list(result["group_level_metrics"])
    _merge_per_task(groups, per_task)
    agent_metrics = result["agent_metrics"] | custom
    return AggregateMetrics(
        group_level_metrics=groups,
        agent_metrics=agent_metrics,
        key_metrics=(get_key_metrics_fn or select_key_metrics)(agent_metrics),
        repeat_level_metrics=result["repeat_level_metrics"],
    )


class RewardProfiler:
    """The numbers of single rows from which metrics are computed."""

    def rollout_info_from_result(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the identity and the numbers of a row: its usage, reward components and own numbers."""
        task, rollout = result.get(TASK_INDEX_KEY), result.get(ROLLOUT_INDEX_KEY)
        identity = {TASK_INDEX_KEY: task, ROLLOUT_INDEX_KEY: rollout}
        return {"rollout_id": f"{task}:{rollout}", **identity, **read_measurements(result)}


def overrides_hooks(own: type, base: type) -> bool:
    """Return whether the class `own` has another metric hook than `base`, which it is made of."""
    return any(getattr(own, hook) is not getattr(base, hook) for hook in _HOOKS)


def group_by_task(rows: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the scored rows grouped by task, ordered by task index and rollout index."""
    by_task: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if is_scored(row):
            by_task[row[TASK_INDEX_KEY]].append(row)
    return [sorted(by_task[task], key=lambda row: int(row[ROLLOUT_INDEX_KEY])) for task in sorted(by_task)]


class AggregateMetricsMixin:
    """The metric hooks of resources servers and agents."""

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """Return additional metrics. `tasks[i]` holds the scored rows of one task. The default returns none."""
        return {}

    def compute_repeat_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """Return additional metrics of one repeat of the dataset, like `compute_metrics`. The default returns none."""
        return {}

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        """Return the most important entries of `agent_metrics`: by default all means, and coverage below 100 %."""
        return select_key_metrics(agent_metrics)

    async def describe_metrics(self) -> MetricHooks:
        """Answer `GET /aggregate_metrics`."""
        return MetricHooks(has_own=overrides_hooks(type(self), AggregateMetricsMixin))

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Answer the route. Runs in a thread, so a large run does not block the server's other requests."""
        return await asyncio.to_thread(
            compute_aggregate_metrics,
            body.verify_responses,
            self.compute_metrics,
            self.get_key_metrics,
            self.compute_repeat_metrics,
        )


def _number_rows(rows: Iterable[AnyRow]) -> Iterator[dict[str, Any]]:
    seen: defaultdict[int, int] = defaultdict(int)
    for row in rows:
        task = row.get(TASK_INDEX_KEY, 0)
        if isinstance(row, dict) and row.keys() >= _INDEX_KEYS:
            yield row
        else:
            yield {TASK_INDEX_KEY: task, ROLLOUT_INDEX_KEY: seen[task], **row}
        seen[task] += 1


def _measure_repeat(
    rows: Iterable[dict[str, Any]], compute: ComputeMetrics | None, index: int
) -> dict[str, Any]:
    """Return an author's metrics of the repeat `index`."""
    return compute(group_by_task(row for row in rows if row[ROLLOUT_INDEX_KEY] == index)) if compute else {}


def _merge_per_task(groups: Iterable[dict[str, Any]], per_task: Iterable[Mapping[str, Any]]) -> None:
    by_task = {group[TASK_INDEX_KEY]: group for group in groups}
    for metrics in per_task:
        group = by_task.get(metrics[TASK_INDEX_KEY])
        if group is None:
            raise ValueError(
                f"{PER_TASK_METRICS} has an entry for task {metrics[TASK_INDEX_KEY]!r}, which has no rows"
            )
        group.update(metrics)
