import math
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.failures import InputError
from nemo_gym.metrics._aggregate import (
    AgentMetrics,
    AggregateResult,
    aggregate,
    reward_by_k,
    reward_interval,
    select_key_metrics,
)
from nemo_gym.metrics._families import Planned


def row(task: int, rollout: int, reward: float, **fields: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, "reward": reward, **fields}


def failed(task: int, rollout: int, failure: str = "engine:timeout") -> dict[str, Any]:
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
        "_ng_outcome": "failed",
        "_ng_failure_class": failure,
    }


def accumulate(rows: list[dict[str, Any]]) -> AgentMetrics:
    metrics = AgentMetrics(answer_key="answer")
    for one in rows:
        metrics.add(one)
    return metrics


@st.composite
def runs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The rows of a small run: some failed, fields that not every row has, unequal numbers of rollouts."""
    rows = []
    for task in range(draw(st.integers(1, 4))):
        for rollout in range(draw(st.integers(1, 4))):
            if draw(st.booleans()):
                rows.append(
                    failed(task, rollout, draw(st.sampled_from(["engine:timeout", "judge:unparsed"])))
                )
                continue
            scored = row(task, rollout, draw(st.floats(0, 1)), answer=draw(st.sampled_from(["a", "b", None])))
            if draw(st.booleans()):
                scored["steps"] = draw(st.integers(0, 9))
            rows.append(scored)
    return rows


@given(runs(), st.randoms())
def test_results_ignore_the_order_of_rows(rows: list[dict[str, Any]], shuffler: random.Random) -> None:
    shuffled = rows[:]
    shuffler.shuffle(shuffled)
    assert accumulate(shuffled).result() == accumulate(rows).result()


@given(runs(), st.data())
def test_results_ignore_how_a_run_is_cut_into_shards(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    shards: list[list[dict[str, Any]]] = [[], [], []]
    for one in rows:
        shards[data.draw(st.integers(0, 2))].append(one)
    first, second, third = (accumulate(shard) for shard in shards)
    second.merge(third)
    first.merge(second)
    assert first.result() == accumulate(rows).result()


@given(runs(), st.data())
def test_a_result_asked_for_on_the_way_changes_none_that_follows(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    rows += [one | {"_ng_attempt_index": 1} for one in rows if "reward" not in one]
    asked_after = data.draw(st.integers(0, len(rows)))
    metrics = accumulate(rows[:asked_after])
    metrics.result()
    for one in rows[asked_after:]:
        metrics.add(one)
    assert metrics.result() == accumulate(rows).result()


def test_the_metrics_of_many_tasks_are_made_without_holding_them() -> None:
    tasks = 5_000
    metrics = AgentMetrics()
    for task in range(tasks):
        metrics.add(
            row(task, 0, float(task % 2), steps=task % 7, response={"usage": {"output_tokens": task}})
        )
    tracemalloc.start()
    try:
        result = metrics.result(Planned(tasks, tasks))
        entries = sum(1 for _ in result["group_level_metrics"])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert entries == tasks
    assert peak < 250 * tasks, "an entry alone takes more than 1,000 bytes"


def test_a_failed_attempt_lowers_coverage_and_no_mean() -> None:
    result = aggregate([row(0, 0, 1.0), row(0, 1, 3.0), row(0, 2, 2.0), failed(0, 3)])
    agent = result["agent_metrics"]
    assert agent["mean/reward"] == 2.0
    assert agent["min/reward"] == 1.0
    assert agent["pass@1[avg-of-4]/reward"] == 200.0
    assert agent["coverage/reward"] == 75.0
    assert agent["count/outcome/failed"] == agent["count/failure/engine:timeout"] == 1
    assert "pass@4/reward" not in agent
    assert agent["short_tasks@4/reward"] == 1
    (entry,) = result["group_level_metrics"]
    assert entry["mean/reward"] == 2.0
    assert entry["count/scored"] == 3
    assert result["key_metrics"] == {"mean/reward": 2.0, "coverage/reward": 75.0}


def test_a_failed_judge_that_answered_zero_is_no_score() -> None:
    agent = aggregate([row(0, 0, 1.0), row(0, 1, 0.0, _ng_failure_class="judge_failed")])["agent_metrics"]
    assert agent["mean/reward"] == 1.0
    assert agent["coverage/reward"] == 50.0


def test_truncated_attempts_are_scored_and_counted_apart() -> None:
    agent = aggregate([row(0, 0, 1.0, _ng_outcome="completed"), row(0, 1, 0.0, _ng_outcome="truncated")])[
        "agent_metrics"
    ]
    assert agent["mean/reward"] == 0.5
    assert (agent["count/outcome/completed"], agent["count/outcome/truncated"]) == (1, 1)


def test_numbers_of_rows_components_and_usage_are_described() -> None:
    usage = [{"usage": {"input_tokens": 10, "output_tokens": tokens}} for tokens in (2, 4, 9)]
    agent = aggregate(
        [
            row(0, 0, 1.0, correct=True, reward_components={"format": 0.5}, response=usage[0]),
            row(0, 1, 0.0, correct=False, reward_components={"format": 0.0}, response=usage[1]),
            row(1, 0, 0.5, correct=False, reward_components={"format": 0.25}, response=usage[2]),
        ]
    )["agent_metrics"]
    described = {key: agent[f"{key}/output_tokens"] for key in ("mean", "max", "min", "median", "std")}
    assert described == pytest.approx({"mean": 5.0, "max": 9.0, "min": 2.0, "median": 4.0, "std": 13**0.5})
    assert agent["mean/correct"] == pytest.approx(1 / 3)
    assert agent["mean/reward_components/format"] == 0.25
    assert agent["mean/input_tokens"] == 10.0


def test_errors_and_intervals_of_means_are_clustered_by_task() -> None:
    two_tasks = aggregate([row(task, rollout, float(task)) for task in range(2) for rollout in range(50)])
    agent = two_tasks["agent_metrics"]
    assert agent["std_err/reward"] == pytest.approx(0.5)
    assert (agent["ci95_low/reward"], agent["ci95_high/reward"]) == pytest.approx(
        (0.5 - 6.3531, 0.5 + 6.3531), abs=1e-4
    )
    assert "std_err/reward" not in aggregate([row(0, 0, 1.0), row(0, 1, 0.0)])["agent_metrics"]


def test_a_task_without_a_score_has_its_group_and_is_counted() -> None:
    result = aggregate([row(0, 0, 1.0), failed(1, 0)])
    _, entry = result["group_level_metrics"]
    assert entry == {"_ng_task_index": 1, "count/rollouts": 1, "count/scored": 0}
    assert result["agent_metrics"]["count/unscored_tasks"] == 1
    assert result["agent_metrics"]["short_tasks@1/reward"] == 1


def test_planned_rollouts_without_a_row_are_missing_and_uncovered() -> None:
    metrics = accumulate([row(0, 0, 1.0), row(0, 1, 1.0)])
    agent = metrics.result(Planned(tasks=2, rollouts=4))["agent_metrics"]
    assert agent["coverage/reward"] == 50.0
    assert agent["count/outcome/missing"] == 2
    assert agent["short_tasks@2/reward"] == agent["count/unscored_tasks"] == 1
    assert agent["mean/reward"] == 1.0


def test_a_plan_smaller_than_what_was_seen_is_refused() -> None:
    with pytest.raises(InputError, match="only 1 with 1 were planned"):
        accumulate([row(0, 0, 1.0), row(0, 1, 1.0)]).result(Planned(tasks=1, rollouts=1))


def test_nothing_gives_nothing_unless_something_was_planned() -> None:
    empty = AggregateResult(group_level_metrics=[], agent_metrics={}, key_metrics={}, repeat_level_metrics=[])
    assert aggregate([]) == empty
    planned = AgentMetrics().result(Planned(tasks=3, rollouts=6))
    assert planned["agent_metrics"]["coverage/reward"] == 0.0


def test_accumulators_of_different_settings_do_not_merge() -> None:
    with pytest.raises(ValueError, match="cannot be merged"):
        AgentMetrics().merge(AgentMetrics(answer_key="answer"))


def test_the_headline_is_every_mean_and_coverage_that_is_not_full() -> None:
    agent_metrics = {"mean/reward": 1.0, "max/reward": 1.0, "coverage/a": 99.0, "coverage/b": 100.0}
    assert select_key_metrics(agent_metrics) == {"mean/reward": 1.0, "coverage/a": 99.0}


@pytest.mark.parametrize(
    "rewards", [[1e308, 1e308], [1e308, -1e308], [1.7e308] * 3, [1e200, -1e200, 1.0], [-1e308, 5e-324]]
)
def test_huge_rewards_give_metrics_that_json_can_hold(rewards: list[float]) -> None:
    metrics = AgentMetrics(answer_key="answer")
    for task in range(2):
        for rollout, reward in enumerate(rewards):
            metrics.add(
                {"_ng_task_index": task, "_ng_rollout_index": rollout, "reward": reward, "answer": "x"}
            )
    result = metrics.result()
    numbers = [result["agent_metrics"], *result["group_level_metrics"]]
    assert all(math.isfinite(value) for entry in numbers for value in entry.values())
    assert result["agent_metrics"]["max/reward"] == max(rewards)
    assert "mean/reward" in result["agent_metrics"]


def test_values_of_k_are_in_order_of_k() -> None:
    metrics = {"pass@16/reward": 90.0, "pass@2/reward": 50.0, "pass@2/other": 1.0, "short_tasks@4/reward": 3}
    assert list(reward_by_k(metrics, "pass").items()) == [(2, 50.0), (16, 90.0)]
    assert reward_by_k(metrics, "short_tasks") == {4: 3}


@pytest.mark.parametrize("rewards", [(1.0, 1.0), (0.5, 0.5), (0.1, 0.1, 0.1)])
def test_tasks_that_all_agree_have_no_interval(rewards: tuple[float, ...]) -> None:
    rows = [row(task, 0, reward) for task, reward in enumerate(rewards)]
    metrics = aggregate(rows)["agent_metrics"]
    assert metrics["ci95_low/reward"] == metrics["ci95_high/reward"] == rewards[0]
    assert reward_interval(metrics) is None
    rows[0]["reward"] = 0.2
    assert reward_interval(aggregate(rows)["agent_metrics"]) is not None
