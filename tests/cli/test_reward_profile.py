"""The pass rates of a run's tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import reward_profile
from tests.rollouts.stored_runs import failure_row, judge_failure_row, scored_row, store

ROWS = [
    scored_row(0, 0, 1.0),
    scored_row(0, 1, 0.0),
    scored_row(1, 0, 1.0),
    scored_row(1, 1, 1.0),
    scored_row(2, 0, 0.25),
]


FAILURES = [failure_row(2, 1), failure_row(3), judge_failure_row(3, 1)]


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "run.jsonl", ROWS, FAILURES)
    arguments = [
        "+input_jsonl_fpath=run.jsonl",
        "+output_jsonl_fpath=out/profile.jsonl",
        "+min_pass_rate=0.5",
    ]
    with pytest.raises(SystemExit) as ended:
        reward_profile.main([*arguments, "+json=true"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["written"] == 2
    with pytest.raises(SystemExit):
        reward_profile.main(arguments)
    assert capsys.readouterr().out.splitlines() == [
        "out/profile.jsonl: 2 of 4 tasks",
        "passed always: 1, sometimes: 1, never: 1, without a score: 1",
        "note: run.jsonl: 3 of 8 rollouts have no score, and are in no mean",
    ]
