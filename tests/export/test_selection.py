"""Filters of an export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.export.report import LeftOut
from tests.export.rows import exported, row


def test_each_filter_leaves_out_for_its_reason(tmp_path: Path) -> None:
    rows = [
        row(0, 0, 1.0),
        row(1, 0, 0.2),
        row(2, 0, 1.0, tokens=500),
        row(3, 0, 1.0, tokens=None),
        row(4, 0, 1.0, agent_ref={"type": "responses_api_agents", "name": "maths_agent"}),
    ]
    written, report = exported(
        tmp_path, "sft", rows, min_reward=0.5, max_output_tokens=100, environments=("weather*",)
    )
    assert len(written) == 1
    assert report.left_out == {
        LeftOut.REWARD: 1,
        LeftOut.LENGTH: 1,
        LeftOut.UNKNOWN_LENGTH: 1,
        LeftOut.ENVIRONMENT: 1,
    }


@pytest.mark.parametrize("format_name", ["sft", "dpo", "kto", "grpo"])
def test_rewards_that_an_answer_could_have_forged_are_not_exported_by_default(
    tmp_path: Path, format_name: str
) -> None:
    rows = [row(0, repeat, float(repeat), tamperable=True) for repeat in range(2)]
    written, report = exported(tmp_path, format_name, rows)
    assert (written, report.left_out) == ([], {LeftOut.TAMPERABLE: 2})
    _, report = exported(tmp_path, format_name, rows, allow_tamperable=True)
    assert LeftOut.TAMPERABLE not in report.left_out


SUPERVISED: list[tuple[str, dict[str, Any], str]] = [
    ("sft", {}, "out.jsonl"),
    ("sharegpt", {}, "out.jsonl"),
    ("openai", {}, "out.jsonl"),
    ("verl", {"form": "sft"}, "out.parquet"),
    ("prime_rl", {"form": "sft"}, "out.jsonl"),
]


@pytest.mark.parametrize(("name", "options", "file"), SUPERVISED)
def test_supervised_examples_are_solved_by_default(
    tmp_path: Path, name: str, options: dict[str, Any], file: str
) -> None:
    rows = [row(task, 0, reward) for task, reward in enumerate((1.0, 0.0, 0.5, 0.0, 2.0, -1.0))]
    written, report = exported(tmp_path, name, rows, name=file, options=options)
    assert (len(written), report.left_out) == (2, {LeftOut.LOW_REWARD: 4})
    assert report.rewards == {0.0: 2, 0.5: 1, -1.0: 1}
    assert "rewards left out: -1 (1 rollouts), 0 (2 rollouts), 0.5 (1 rollouts)" in list(report.lines())
    assert report.to_json()["left_out_rewards"][1] == {"reward": 0.0, "rollouts": 2}


@pytest.mark.parametrize(("name", "options", "file"), SUPERVISED)
@pytest.mark.parametrize(
    ("bound", "kept"), [({"min_reward": 0.0}, 2), ({"min_reward": 0.3}, 1), ({"max_reward": 0.4}, 1)]
)
def test_a_bound_of_the_user_takes_the_place_of_the_default(
    tmp_path: Path, name: str, options: dict[str, Any], file: str, bound: dict[str, float], kept: int
) -> None:
    rows = [row(0, 0, 0.0), row(1, 0, 0.5)]
    _, report = exported(tmp_path, name, rows, name=file, options=options, **bound)
    assert report.exported == kept
    assert LeftOut.LOW_REWARD not in report.left_out


@pytest.mark.parametrize("name", ["dpo", "kto"])
def test_formats_that_compare_answers_take_every_reward(tmp_path: Path, name: str) -> None:
    _, report = exported(tmp_path, name, [row(0, 0, 0.0), row(0, 1, 0.5)])
    assert report.exported == 2


def test_the_most_frequent_of_many_rewards_are_printed(tmp_path: Path) -> None:
    rows = [row(task, 0, task % 8 / 10) for task in range(16)]
    _, report = exported(tmp_path, "sft", rows)
    (line,) = [line for line in report.lines() if line.startswith("rewards left out: ")]
    assert line.endswith("others (6 rollouts)")
