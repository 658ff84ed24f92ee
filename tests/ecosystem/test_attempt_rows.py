"""Stored rows of attempts: final failures, durations, and unusable judgements that move to the failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.ecosystem.attempt_rows import (
    get_max_rollout_attempts,
    is_terminal_failure,
    migrate_invalid_judge_main_rows,
    observed_elapsed,
)


@pytest.mark.parametrize(
    ("row", "by_default", "with_retries"),
    [
        ({"_ng_failure_terminal": True}, True, True),
        ({"_ng_failure_class": "timeout_exceeded", "_ng_failure_terminal": True}, True, False),
        ({"_ng_failure_class": "reference_missing", "_ng_failure_terminal": True}, True, False),
        ({"_ng_failure_class": "skipped"}, False, True),
        ({"_ng_failure_class": "judge_failed"}, False, False),
    ],
)
def test_a_final_failure_is_not_repeated(row: dict[str, Any], by_default: bool, with_retries: bool) -> None:
    assert is_terminal_failure(row) is by_default
    assert is_terminal_failure(row, retry_terminal_timeouts=True) is with_retries


@pytest.mark.parametrize(
    ("row", "seconds"),
    [({"elapsed_seconds": 12}, 12.0), ({"_ng_timing": {"total": 2.5}}, 2.5), ({"elapsed_seconds": 0}, None)],
)
def test_the_seconds_of_an_attempt_come_from_its_row(row: dict[str, Any], seconds: float | None) -> None:
    assert observed_elapsed(row) == seconds


@pytest.mark.parametrize(("given", "most"), [("", 3), ("5", 5), ("0", 3), ("many", 3)])
def test_the_most_attempts_are_a_variable(monkeypatch: pytest.MonkeyPatch, given: str, most: int) -> None:
    monkeypatch.setenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", given)
    assert get_max_rollout_attempts() == most


def test_rows_without_a_judgement_move_to_the_failures_once(tmp_path: Path) -> None:
    output, failures = tmp_path / "out.jsonl", tmp_path / "out_failures.jsonl"
    rows = [
        {"_ng_task_index": task, "_ng_rollout_index": 0, "reward": 0.0, "invalid_judge_response": task > 0}
        for task in range(3)
    ]
    output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert migrate_invalid_judge_main_rows(output) == 2
    assert [json.loads(line) for line in output.read_text().splitlines()] == rows[:1]
    moved = failures.read_text()
    assert [json.loads(line)["_ng_task_index"] for line in moved.splitlines()] == [1, 2]
    assert "reward" not in moved
    assert migrate_invalid_judge_main_rows(output) == 0
    assert migrate_invalid_judge_main_rows(tmp_path / "none.jsonl") == 0
