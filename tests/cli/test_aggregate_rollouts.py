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
