"""`ng_forget` and `gym forget`."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from nemo_gym.cli.forget import main
from nemo_gym.rollouts.output._append_file import AppendFile
from tests.rollouts.recorded_attempts import leave_attempt


def test_all_records_are_deleted_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "out.jsonl"
    rows.write_text("{}\n")
    for number in range(2):
        leave_attempt(tmp_path / "out_attempts" / f"0.{number}.a0", answered=1)
    with pytest.raises(SystemExit) as ended:
        main([f"+input_jsonl_fpath={rows}", "+json=true"])
    assert not ended.value.code
    told = json.loads(capsys.readouterr().out)
    assert told["attempts"] == 2
    assert told["bytes"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_the_records_of_a_run_that_goes_on_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "out.jsonl"
    leave_attempt(tmp_path / "out_attempts" / "0.0.a0", answered=1)
    with closing(AppendFile(rows)), pytest.raises(SystemExit) as ended:
        main([f"+input_jsonl_fpath={rows}"])
    assert ended.value.code == 2
    assert "another process is writing" in capsys.readouterr().err
    assert (tmp_path / "out_attempts" / "0.0.a0").exists()


def test_one_attempt_is_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave_attempt(tmp_path / "out_attempts" / "0.0.a0", answered=1)
    with pytest.raises(SystemExit) as ended:
        main([f"+input_jsonl_fpath={tmp_path / 'out.jsonl'}"])
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("deleted the records of 1 attempt (")
