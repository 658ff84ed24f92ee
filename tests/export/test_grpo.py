from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.export.grpo import Grpo, GrpoOptions
from nemo_gym.export.report import LeftOut, Report
from nemo_gym.export.rollouts import Group, ScoredRollout
from nemo_gym.failures import Outcome
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from tests.export.rows import exported, failed, row, text, token_rows, two_agents


def tokens(*ids: int) -> dict[str, Any]:
    return {
        "prompt_token_ids": [1],
        "generation_token_ids": list(ids),
        "generation_log_probs": [-0.5] * len(ids),
    }


def group(*rewards: float) -> list[dict[str, Any]]:
    return [row(0, n, reward, [text(str(n)) | tokens(n)]) for n, reward in enumerate(rewards)]


def advantages(tmp_path: Path, rows: list[dict[str, Any]], **settings: Any) -> list[float]:
    return [each["advantage"] for each in exported(tmp_path, "grpo", rows, **settings)[0]]


def test_a_failed_attempt_is_not_in_the_baseline(tmp_path: Path) -> None:
    rows = [*group(1, 3, 2), failed(0, 3)]
    assert advantages(tmp_path, rows) == [-1.0, 1.0, 0.0]
    (first, *_), _ = exported(tmp_path, "grpo", rows)
    assert (first["group_size"], first["group_mean"], first["group_std"]) == (3, 2.0, 1.0)


def test_filters_choose_rows_and_leave_the_baseline(tmp_path: Path) -> None:
    assert advantages(tmp_path, group(1, 3, 2), min_reward=3) == [1.0]


def test_unscaled_advantages_are_differences_from_the_mean(tmp_path: Path) -> None:
    assert advantages(tmp_path, group(0, 4), options={"scale": "none"}) == [-2.0, 2.0]


def test_equal_rewards_have_no_advantage_and_can_be_left_out(tmp_path: Path) -> None:
    assert advantages(tmp_path, group(0.1, 0.1, 0.1)) == [0.0, 0.0, 0.0]
    _, report = exported(tmp_path, "grpo", group(1, 1), options={"keep_equal_groups": False})
    assert report.left_out == {LeftOut.EQUAL_REWARDS: 2}


def test_the_mean_of_equal_rewards_is_their_value(tmp_path: Path) -> None:
    (first, *_), _ = exported(tmp_path, "grpo", group(0.1, 0.1, 0.1))
    assert (first["group_mean"], first["group_std"]) == (0.1, 0.0)


def test_a_single_rollout_has_no_baseline(tmp_path: Path) -> None:
    _, report = exported(tmp_path, "grpo", [*group(1), failed(0, 1)])
    assert report.left_out == {LeftOut.NO_BASELINE: 1, LeftOut.FAILED: 1}


def test_truncated_rollouts_are_in_the_group(tmp_path: Path) -> None:
    rows = group(0, 1)
    rows[0]["_ng_outcome"] = "truncated"
    assert len(advantages(tmp_path, rows)) == 2


async def test_segments_hold_exactly_the_engine_tokens(tmp_path: Path) -> None:
    rows = await token_rows(3, 3, "odd", odd_share=0.5)
    written, _ = exported(tmp_path, "grpo", rows)
    by_name = {(each["group_id"], each["rollout_index"]): each for each in written}
    for each in rows:
        found = by_name[str(each["_ng_task_index"]), each["_ng_rollout_index"]]["segments"]
        assert [(s["input_ids"], s["loss_mask"], s["logprobs"], s["reason"]) for s in found] == [
            (s.token_ids, s.loss_mask, s.logprobs, s.reason) for s in build_segments(read_calls(each))
        ]
        assert all(
            (logprob is None) == (bit == 0)
            for s in found
            for logprob, bit in zip(s["logprobs"], s["loss_mask"], strict=True)
        )


@settings(max_examples=60)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12))
def test_advantages_of_a_group_sum_to_zero(rewards: list[float]) -> None:
    members = [
        ScoredRollout(given, str(n), "0", float(given["reward"]), Outcome.COMPLETED)
        for n, given in enumerate(group(*rewards))
    ]
    found = list(Grpo(GrpoOptions(), Report()).rows(Group("0", b"", members, list(members))))
    values = [each["advantage"] for each in found]
    assert sum(values) == pytest.approx(0, abs=1e-6 * len(values) * max(1.0, max(map(abs, values))))
    assert max(map(abs, values)) <= len(values)


def test_rewards_that_differ_by_rounding_alone_are_equal(tmp_path: Path) -> None:
    assert advantages(tmp_path, group(0.1 + 0.2, 0.3)) == [0.0, 0.0]


def test_each_agent_of_a_task_has_its_own_baseline(tmp_path: Path) -> None:
    rows = two_agents((0, 1), (1, 1), (1, 4), tasks=2)
    written, _ = exported(tmp_path, "grpo", rows, options={"scale": "none"})
    assert len({each["group_id"] for each in written}) == 4
    for each in written:
        own = [
            one["reward"]
            for one in rows
            if one["agent_ref"]["name"] == each["environment"]
            and one["_ng_task_index"] == int(each["group_id"][0])
        ]
        assert (each["group_size"], each["group_mean"]) == (3, pytest.approx(sum(own) / 3))
        assert each["advantage"] == pytest.approx(each["reward"] - sum(own) / 3)


def test_a_filter_of_agents_leaves_the_baseline_of_an_agent(tmp_path: Path) -> None:
    rows = two_agents((0, 1), (1, 1), (1, 4))
    whole, _ = exported(tmp_path, "grpo", rows)
    alone, _ = exported(tmp_path, "grpo", rows, environments=["a"])
    assert alone == [each for each in whole if each["environment"] == "a"]
    single, _ = exported(tmp_path, "grpo", [each for each in rows if each["agent_ref"]["name"] == "a"])
    assert [each | {"group_id": "0"} for each in alone] == single


def test_one_rollout_of_each_agent_is_no_group(tmp_path: Path) -> None:
    _, report = exported(tmp_path, "grpo", two_agents((0, 1)))
    assert report.left_out == {LeftOut.NO_BASELINE: 2}
