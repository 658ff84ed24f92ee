import json
import threading
from typing import Any

import pytest

from nemo_gym.config_types import AggregateMetrics, AggregateMetricsRequest
from nemo_gym.metrics._pass_majority import compute_pass_majority_metrics
from nemo_gym.metrics.hooks import AggregateMetricsMixin, RewardProfiler, compute_aggregate_metrics

Row = dict[str, Any]


def row(task: int, rollout: int, reward: float, **fields: Any) -> Row:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, "reward": reward, **fields}


class Benchmark(AggregateMetricsMixin):
    """A server that reports symbolic accuracy and remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list[list[Row]] = []
        self.thread = ""

    def compute_metrics(self, tasks: list[list[Row]]) -> dict[str, Any]:
        self.seen, self.thread = tasks, threading.current_thread().name
        metrics = compute_pass_majority_metrics(tasks, lambda row: {"symbolic": row["symbolic"]})[0]
        labels = [{"_ng_task_index": rows[0]["_ng_task_index"], "difficulty": "easy"} for rows in tasks]
        return {**metrics, "per_task_metrics": labels}

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        return {"headline": agent_metrics["pass@2/symbolic"]}


ROWS = [
    row(1, 0, 0.0, symbolic=False),
    row(0, 1, 1.0, symbolic=True),
    {
        "_ng_task_index": 0,
        "_ng_rollout_index": 2,
        "_ng_outcome": "failed",
        "_ng_failure_class": "agent:crash",
    },
    row(0, 0, 0.0, symbolic=False),
    row(1, 1, 0.0, symbolic=False),
]


async def test_a_servers_metrics_join_the_base_metrics() -> None:
    server = Benchmark()
    metrics = await server.aggregate_metrics(AggregateMetricsRequest(verify_responses=ROWS))
    assert metrics.agent_metrics["mean/reward"] == 0.25
    assert metrics.agent_metrics["pass@2/symbolic"] == 50.0
    assert metrics.agent_metrics["count/failure/agent:crash"] == 1
    assert metrics.key_metrics == {"headline": 50.0}
    assert [group["difficulty"] for group in metrics.group_level_metrics] == ["easy", "easy"]
    assert [group["mean/reward"] for group in metrics.group_level_metrics] == [0.5, 0.0]
    assert "per_task_metrics" not in metrics.agent_metrics


async def test_a_server_gets_scored_rows_by_task_in_order_and_off_the_event_loop() -> None:
    server = Benchmark()
    await server.aggregate_metrics(AggregateMetricsRequest(verify_responses=ROWS))
    places = [[(r["_ng_task_index"], r["_ng_rollout_index"]) for r in rows] for rows in server.seen]
    assert places == [[(0, 0), (0, 1)], [(1, 0), (1, 1)]]
    assert server.thread != threading.current_thread().name


async def test_the_default_hooks_report_pass_at_k_of_the_reward() -> None:
    metrics = await AggregateMetricsMixin().aggregate_metrics(AggregateMetricsRequest(verify_responses=ROWS))
    assert metrics.agent_metrics["pass@2/reward"] == 50.0
    assert metrics.agent_metrics["coverage/reward"] == 80.0
    assert set(metrics.key_metrics) == {"mean/reward", "mean/symbolic", "coverage/reward"}


def test_a_servers_own_families_replace_the_default_ones() -> None:
    metrics = compute_aggregate_metrics(ROWS, compute_metrics_fn=lambda tasks: {"elo": 1200})
    assert metrics.agent_metrics["elo"] == 1200
    assert not any(key.startswith("pass@") for key in metrics.agent_metrics)


def test_rows_without_indices_are_rollouts_of_one_task() -> None:
    metrics = compute_aggregate_metrics([{"reward": 1.0}, {"reward": 0.0}])
    assert metrics.agent_metrics["count/tasks"] == 1
    assert metrics.agent_metrics["pass@2/reward"] == 100.0


def test_no_rows_give_empty_metrics_and_call_no_hook() -> None:
    def never(tasks: list[list[Row]]) -> Row:
        raise AssertionError("called")

    assert compute_aggregate_metrics([], compute_metrics_fn=never) == AggregateMetrics()


def test_the_metrics_are_plain_json() -> None:
    dumped = compute_aggregate_metrics(ROWS).model_dump()
    assert json.loads(json.dumps(dumped, allow_nan=False)) == dumped


def test_metrics_of_a_task_that_has_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="task 9"):
        compute_aggregate_metrics(ROWS, lambda tasks: {"per_task_metrics": [{"_ng_task_index": 9}]})


def test_the_numbers_of_a_row_are_those_that_metrics_use() -> None:
    row = {"_ng_task_index": 1, "_ng_rollout_index": 2, "reward": 1.0, "_ng_other": 3, "name": "x"}
    assert RewardProfiler().rollout_info_from_result(row) == {
        "rollout_id": "1:2",
        "_ng_task_index": 1,
        "_ng_rollout_index": 2,
        "reward": 1.0,
    }


class Headline(AggregateMetricsMixin):
    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        return {}


async def test_a_class_says_whether_it_has_metrics_of_its_own() -> None:
    classes = {
        AggregateMetricsMixin: False,
        Benchmark: True,
        Headline: True,
        type("Sub", (Headline,), {}): True,
    }
    for its_class, has_own in classes.items():
        assert (await its_class().describe_metrics()).has_own is has_own, its_class
