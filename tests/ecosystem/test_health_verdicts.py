from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollout_health import run_health_checks
from tests.rollouts.lookback.health.healthy_run import healthy_rows


def write_rows(folder: Path, rows: list[dict[str, Any]], name: str = "rollouts.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_every_rollout_gets_a_verdict_in_a_file(tmp_path: Path) -> None:
    rows = healthy_rows()[:8]
    del rows[3]["reward"]
    result = run_health_checks(write_rows(tmp_path, rows), output_dir=tmp_path / "health", workers=1)
    verdicts = [json.loads(line) for line in result.verdicts_path.read_text().splitlines()]
    assert [verdict["verdict"] for verdict in verdicts] == ["healthy"] * 3 + ["unhealthy"] + ["healthy"] * 4
    assert verdicts[3]["task_index"] == rows[3]["_ng_task_index"]
    (finding,) = verdicts[3]["findings"]
    assert finding == {"check": "bad_reward", "severity": "fault", "detail": "the reward is None"}
    assert json.loads(result.summary_path.read_text()) == result.summary
    assert result.summary["run"]["records"] == 8
    assert result.summary["run"]["issues"]["bad_reward"] == 1


def test_several_files_are_one_run(tmp_path: Path) -> None:
    (row, *_) = healthy_rows()
    files = [write_rows(tmp_path, [row], f"{name}.jsonl") for name in "ab"]
    result = run_health_checks(files)
    assert result.summary["run"]["issues"]["duplicate_rollout"] == 1
    assert result.verdicts_path.parent == tmp_path


def test_a_rule_can_be_ignored(tmp_path: Path) -> None:
    rows = healthy_rows()[:2]
    del rows[0]["reward"]
    path = write_rows(tmp_path, rows)
    result = run_health_checks(path, ignored_checks=["bad_reward"])
    assert [rollout.verdict for rollout in result.rollouts] == ["healthy", "healthy"]
    with pytest.raises(ConfigError, match="no rule 'bad_rewards'"):
        run_health_checks(path, ignored_checks=["bad_rewards"])
