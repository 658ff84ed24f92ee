from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.rollouts.lookback.reward_profile import PassRates, ProfileSummary, write_profile
from nemo_gym.rollouts.lookback.stored import StoredRun
from tests.rollouts.doubles import read_rows
from tests.rollouts.stored_runs import failure_row, judge_failure_row, scored_row, store

ROWS = [
    scored_row(0, 0, 1.0),
    scored_row(0, 1, 0.0),
    scored_row(1, 0, 1.0),
    scored_row(1, 1, 1.0),
    scored_row(2, 0, 0.25),
]
FAILURES = [failure_row(2, 1), failure_row(3), judge_failure_row(3, 1)]


def profile(
    tmp_path: Path, *, tasks: bool = True, **options: Any
) -> tuple[list[dict[str, Any]], ProfileSummary]:
    run = StoredRun(store(tmp_path / "run.jsonl", ROWS, FAILURES, tasks=tasks))
    summary = write_profile(run, tmp_path / "profile.jsonl", **options)
    run.close()
    return read_rows(tmp_path / "profile.jsonl"), summary


def test_each_task_has_its_row_with_what_its_rollouts_came_to(tmp_path: Path) -> None:
    rows, summary = profile(tmp_path)
    assert [row["_ng_task_index"] for row in rows] == [0, 1, 2, 3]
    first = rows[0]
    assert first["responses_create_params"] == {"input": "question 0"}
    assert first["answer"] == 0
    assert "response" not in first
    assert "_ng_rollout_index" not in first
    assert (first["avg_reward"], first["min_reward"], first["max_reward"]) == (0.5, 0.0, 1.0)
    assert first["std_reward"] == pytest.approx(0.5**0.5)
    assert (first["total_samples"], first["pass_rate"], first["avg_output_tokens"]) == (2, 0.5, 15.0)
    assert (rows[2]["total_samples"], rows[2]["failed_samples"], rows[2]["pass_rate"]) == (1, 1, 0.0)
    assert (rows[3]["total_samples"], rows[3]["failed_samples"], rows[3]["avg_reward"]) == (0, 2, None)
    assert summary == ProfileSummary(4, 4, never_passed=1, always_passed=1, sometimes_passed=1, unscored=1)


def test_tasks_are_chosen_by_how_often_they_are_passed(tmp_path: Path) -> None:
    rows, summary = profile(tmp_path, rates=PassRates(0.1, 0.9))
    assert [row["_ng_task_index"] for row in rows] == [0]
    assert (summary.tasks, summary.written) == (4, 1)
    rows, _ = profile(tmp_path, rates=PassRates(0.5, 1.0), pass_threshold=0.25)
    assert [(row["_ng_task_index"], row["pass_rate"]) for row in rows] == [(0, 0.5), (1, 1.0), (2, 1.0)]


def test_without_the_task_rows_what_a_row_surely_has_of_its_task_is_kept(tmp_path: Path) -> None:
    rows, _ = profile(tmp_path, tasks=False)
    assert rows[0]["responses_create_params"] == {"input": "question 0"}
    assert rows[0]["agent_ref"]["name"] == "simple_agent"
    assert "answer" not in rows[0]


def test_a_task_of_two_agents_has_the_profile_of_each(tmp_path: Path) -> None:
    rewards = {("a", 0): [1.0, 1.0], ("b", 0): [0.0, 1.0], ("a", 1): [0.0], ("b", 1): [0.0, 0.0]}
    rows = [
        scored_row(task, 2 * number + (agent == "b"), reward, agent=agent)
        for (agent, task), own in rewards.items()
        for number, reward in enumerate(own)
    ]
    run = StoredRun(store(tmp_path / "run.jsonl", rows, [failure_row(1, 2, agent="a")]))
    summary = write_profile(run, tmp_path / "profile.jsonl")
    run.close()
    written = read_rows(tmp_path / "profile.jsonl")
    assert [(row["_ng_task_index"], row["agent_ref"]["name"]) for row in written] == [
        (0, "a"), (0, "b"), (1, "a"), (1, "b"),
    ]  # fmt: skip
    for row in written:
        own = rewards[row["agent_ref"]["name"], row["_ng_task_index"]]
        assert (row["avg_reward"], row["total_samples"]) == (sum(own) / len(own), len(own))
    assert [row["failed_samples"] for row in written] == [0, 0, 1, 0]
    assert (summary.tasks, summary.further, summary.written) == (2, 2, 4)
    assert (summary.always_passed, summary.sometimes_passed, summary.never_passed) == (1, 1, 2)
