from __future__ import annotations

from typing import Any

from nemo_gym.metrics import aggregate
from nemo_gym.metrics._repeats import MetricsOfRepeat, compute_across_repeats
from nemo_gym.metrics.hooks import AggregateMetricsMixin, AggregateMetricsRequest

Row = dict[str, Any]


def row(task: int, repeat: int, reward: float, **fields: Any) -> Row:
    return {"_ng_task_index": task, "_ng_rollout_index": repeat, "reward": reward, **fields}


ROWS = [row(0, 0, 1.0), row(1, 0, 0.0), row(0, 1, 1.0), row(1, 1, 1.0)]


def repeat_level_metrics(rows: list[Row], own: MetricsOfRepeat | None = None) -> list[Row]:
    return aggregate(rows, of_repeat=own)["repeat_level_metrics"]


def test_each_repeat_has_its_own_means() -> None:
    entries = repeat_level_metrics(ROWS)
    assert [entry["_ng_rollout_index"] for entry in entries] == [0, 1]
    assert [entry["mean/reward"] for entry in entries] == [0.5, 1.0]


def test_a_run_of_one_repeat_has_none() -> None:
    assert repeat_level_metrics(ROWS[:2]) == []
    assert compute_across_repeats([]) == {}


def test_a_failed_attempt_is_in_no_repeat() -> None:
    failed = {"_ng_task_index": 0, "_ng_rollout_index": 2, "_ng_failure_class": "agent:crash"}
    assert len(repeat_level_metrics([*ROWS, failed])) == 2


def test_means_have_statistics_over_the_repeats() -> None:
    metrics = compute_across_repeats(repeat_level_metrics(ROWS))
    assert metrics["mean_across_repeats/mean/reward"] == 0.75
    assert (metrics["min_across_repeats/mean/reward"], metrics["max_across_repeats/mean/reward"]) == (
        0.5,
        1.0,
    )
    assert metrics["se_across_repeats/mean/reward"] == metrics["std_across_repeats/mean/reward"] / 2**0.5
    assert not any("std/reward" in key for key in metrics)


def test_an_authors_metric_that_a_repeat_lacks_is_left_out() -> None:
    def own(index: int) -> Row:
        return {"mean/reward": float(index), "rare": 1.0 if index else None}

    entries = repeat_level_metrics(ROWS, own)
    assert [entry["mean/reward"] for entry in entries] == [0.0, 1.0]
    assert not any("rare" in entry for entry in entries)


class Benchmark(AggregateMetricsMixin):
    def compute_repeat_metrics(self, tasks: list[list[Row]]) -> Row:
        return {"solved": sum(rows[0]["reward"] for rows in tasks)}


async def test_an_authors_hook_gets_the_tasks_of_one_repeat() -> None:
    answer = await Benchmark().aggregate_metrics(AggregateMetricsRequest(verify_responses=ROWS))
    assert [entry["solved"] for entry in answer.repeat_level_metrics] == [1.0, 2.0]
    assert answer.agent_metrics["mean_across_repeats/solved"] == 1.5
