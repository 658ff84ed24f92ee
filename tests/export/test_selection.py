"""Filters of an export."""

from __future__ import annotations

from pathlib import Path

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
