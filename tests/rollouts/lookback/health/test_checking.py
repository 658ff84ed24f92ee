"""A file of rows is checked by all rules in one pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from nemo_gym import PARENT_DIR
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.health import RULES, HealthCheck, check_health
from nemo_gym.rollouts.lookback.health.checking import MOST_KEPT
from tests.rollouts.lookback.health.healthy_run import check, healthy_rows, message, names_found


def test_a_healthy_run_has_no_findings(tmp_path: Path) -> None:
    report = check(tmp_path, healthy_rows())
    assert (report.rows, names_found(report)) == (2_000, [])
    assert not report.has_faults


def test_lines_that_are_no_rows_are_found(tmp_path: Path) -> None:
    rows: list[Any] = healthy_rows()
    rows[5:5] = [b'{"_ng_task_index":0,"rew', b"[]"]
    report = check(tmp_path, rows)
    assert names_found(report) == ["damaged_row"]
    assert [found.line for found in report.rules["damaged_row"].first] == [6, 7]
    assert report.has_faults


def test_rows_are_checked_one_by_one() -> None:
    broken = {**healthy_rows()[0], "reward": None}
    found = list(HealthCheck().read(broken, 7))
    assert [(each.rule, each.line) for each in found] == [("bad_reward", 7)]


def test_a_rule_that_is_skipped_finds_nothing(tmp_path: Path) -> None:
    rows: list[Any] = healthy_rows()
    rows[0]["reward"] = None
    rows.append(b"broken")
    report = check(tmp_path, rows, skip=["bad_reward", "damaged_row", "duplicate_rollout"])
    assert (report.found, len(report.rules)) == ([], len(RULES) - 3)
    with pytest.raises(ConfigError, match="no rule 'bad_rewards'") as refused:
        check(tmp_path, rows, skip=["bad_rewards"])
    assert refused.value.failure.remedy == "Did you mean 'bad_reward'?"


def test_a_report_counts_all_findings_and_keeps_the_first(tmp_path: Path) -> None:
    rows = healthy_rows()
    for row in rows:
        row["reward"] = None
    found = check(tmp_path, rows).rules["bad_reward"]
    assert (found.count, len(found.first)) == (2_000, MOST_KEPT)


def test_a_compressed_run_of_another_program_is_read(tmp_path: Path) -> None:
    rows = [{"reward": 1, "response": {"output": [message("")]}}, {"reward": 1, "response": "none"}]
    path = tmp_path / "rollouts.jsonl.zst"
    path.write_bytes(zstandard.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows)))
    found = check_health(path).rules["empty_turn"].first
    assert [(each.task, each.repeat, each.text) for each in found] == [
        (0, 0, "turn 1"),
        (1, 0, "the response has no output"),
    ]


def test_every_rule_is_documented() -> None:
    page = (PARENT_DIR / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert [rule.name for rule in RULES.values() if f"| `{rule.name}` ({rule.severity}) |" not in page] == []


@pytest.mark.parametrize("index", [True, 1.0, "1"])
def test_a_row_with_an_index_that_is_no_integer_is_damaged(tmp_path: Path, index: object) -> None:
    rows: list[Any] = healthy_rows()
    rows[3] = {**rows[3], "_ng_task_index": index}
    (found,) = check(tmp_path, rows).rules["damaged_row"].first
    assert found.line == 4
    assert found.text.startswith("the row has `_ng_task_index` = ")
