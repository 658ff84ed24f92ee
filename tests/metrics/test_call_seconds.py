"""The seconds of calls by tool and model server, and the account of where the time of rollouts went."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.metrics import CallSeconds, aggregate, describe_times, has_partial_rewards, read_time_account


def a_row(task: int, *calls: tuple[str, str, float], reward: float = 1.0, **phases: float) -> dict[str, Any]:
    identity = {"_ng_task_index": task, "_ng_rollout_index": 0}
    return {**identity, "reward": reward, "_ng_timing": {**phases, "calls": [list(call) for call in calls]}}


def metrics_of(*rows: dict[str, Any]) -> dict[str, Any]:
    tally = CallSeconds()
    for row in rows:
        tally.add(row)
    return aggregate(rows)["agent_metrics"] | tally.metrics()


def test_each_tool_and_model_has_its_calls_mean_and_longest() -> None:
    rows = (
        a_row(0, ("m", "/v1/responses", 1.0), ("shop", "/buy", 0.5), total=2.0),
        a_row(1, ("m", "/v1/responses", 3.0), ("shop", "/look", 0.25), ("shop", "/buy", 1.5), total=6.0),
    )
    found = metrics_of(*rows)
    assert (found["count/timed_calls/model/m"], found["mean/call_seconds/model/m"]) == (2, 2.0)
    assert (found["mean/call_seconds/tools/buy"], found["max/call_seconds/tools/buy"]) == (1.0, 1.5)
    assert found["count/timed_calls/tools/look"] == 1
    assert (found["mean/seconds"], found["mean/seconds/tools"], found["mean/seconds/model"]) == (
        4.0,
        1.125,
        2.0,
    )


def test_the_slowest_tool_and_verifier_of_several_agents_are_named() -> None:
    slow_tool = metrics_of(a_row(0, ("m", "/v1/responses", 0.5), ("a", "/dig", 1.5), verify=0.0, total=2.0))
    slow_verifier = metrics_of(a_row(0, ("m", "/v1/responses", 0.5), queue=0.5, verify=2.0, total=2.5))
    accounts = [read_time_account("digger", slow_tool), read_time_account("judge", slow_verifier)]
    assert list(describe_times([each for each in accounts if each])) == [
        "time: digger: 2 s a rollout (model 25 %, tools 75 %); judge: 2.5 s a rollout "
        "(model 20 %, verify 80 %) after 0.5 s in the queue",
        "slowest, waits and starts of workers included: tool `dig` of digger (1.5 s a call), "
        "verifier of judge (2 s a call)",
    ]


def test_shares_are_of_the_seconds_beside_them() -> None:
    rows = [a_row(0, ("m", "/v1/responses", 0.02), seed_session=0.02, verify=0.08, total=0.2)]
    assert (
        str(read_time_account("a", metrics_of(*rows)))
        == "a: 0.2 s a rollout (model 10 %, verify 40 %, other 50 %)"
    )
    both = [("a", "/dig", 1.5), ("a", "/look", 1.5)]
    assert (
        str(read_time_account("a", metrics_of(a_row(0, *both, total=2.0))))
        == "a: 2 s a rollout (tools 150 %)"
    ), "calls at the same time"
    assert str(read_time_account("a", {"mean/seconds": 2.0})) == "a: 2 s a rollout"


def test_the_tokens_of_a_rollout_are_beside_its_seconds() -> None:
    row = a_row(0, ("m", "/v1/responses", 0.5), total=2.0)
    assert str(read_time_account("a", metrics_of(row))).startswith("a: 2 s a rollout")
    row["response"] = {"usage": {"total_tokens": 1234}}
    assert str(read_time_account("a", metrics_of(row))).startswith("a: 2 s and 1,234 tokens a rollout")


def test_rows_without_times_have_no_account() -> None:
    assert (
        read_time_account(
            "a", aggregate([{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1}])["agent_metrics"]
        )
        is None
    )
    assert list(describe_times([])) == []


@pytest.mark.parametrize(
    ("rewards", "is_partial"),
    [
        ((0, 1, 1), False),
        ((1,), False),
        ((0, 0), False),
        ((0.5,), True),
        ((0, 1, 0.999), True),
        ((0, 2), True),
        ((-1, 1), True),
        ((0.0665,) * 5, True),
        ((0.25, 0.75), True),
        ((1,) * 9999 + (0.01,), True),
        ((1, 0) * 5000, False),
    ],
)
def test_partial_rewards_are_told_from_passes(rewards: tuple[float, ...], is_partial: bool) -> None:
    metrics = aggregate(a_row(task, reward=reward) for task, reward in enumerate(rewards))["agent_metrics"]
    assert has_partial_rewards(metrics) is is_partial


def test_without_rewards_there_are_no_partial_ones() -> None:
    assert not has_partial_rewards({})
