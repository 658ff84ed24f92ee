"""Shards named by a pattern are merged into one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import aggregate_rollouts
from tests.rollouts.shards import store_shard
from tests.rollouts.stored_runs import failure_row, scored_row


def test_the_command_takes_patterns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        store_shard(
            tmp_path / "shards" / f"part_{number}.jsonl", [scored_row(number), failure_row(number, 1)]
        )
    arguments = ["+input_jsonl_fpath=shards/part_*.jsonl", "+output_jsonl_fpath=shards/part_all.jsonl"]
    with pytest.raises(SystemExit) as ended:
        aggregate_rollouts.main(arguments)
    assert ended.value.code == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "3 rows and 3 failed attempts from 3 shards"
    assert told[1] == "  simple_agent: 3 of 6 rollouts scored, mean reward 1.0000"
    with pytest.raises(SystemExit):
        aggregate_rollouts.main([*arguments, "+overwrite=true", "+json=true"])
    assert json.loads(capsys.readouterr().out)["shards"] == [
        f"shards/part_{number}.jsonl" for number in range(3)
    ]
    with pytest.raises(SystemExit) as ended:
        aggregate_rollouts.main(["+input_jsonl_fpath=none_*.jsonl", "+output_jsonl_fpath=out.jsonl"])
    assert ended.value.code == 2


def test_shards_that_were_killed_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = store_shard(tmp_path / "one.jsonl", [scored_row(0), scored_row(1)])
    document = {"schema_version": 1, "identity": {}, "starts": [{"planned": 12}]}
    (tmp_path / "one_run.json").write_text(json.dumps(document))
    arguments = [f"+input_jsonl_fpath={shard}", f"+output_jsonl_fpath={tmp_path / 'all.jsonl'}"]
    with pytest.raises(SystemExit):
        aggregate_rollouts.main(arguments)
    assert "2 of 12 planned rollouts; the run has not ended" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        aggregate_rollouts.main([*arguments, "+overwrite=true", "+json=true"])
    told = json.loads(capsys.readouterr().out)
    (run,) = told["runs"]
    assert (run["rows"], run["planned"], run["state"], told["scored"]) == (2, 12, "stopped", 2)


def test_failures_that_stand_as_rows_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = scored_row(1, _ng_failure_class="boom", _ng_outcome="failed")
    shard = store_shard(tmp_path / "one.jsonl", [scored_row(0), failed, failure_row(2)])
    output = tmp_path / "all.jsonl"
    with pytest.raises(SystemExit):
        aggregate_rollouts.main([f"+input_jsonl_fpath={shard}", f"+output_jsonl_fpath={output}"])
    assert capsys.readouterr().out.startswith("2 rows (1 with a score) and 2 failed attempts from 1 shards\n")
