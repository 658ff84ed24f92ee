"""A file whose rows have different versions: of this gym, of an older one, of another, and of a newer one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym import cli
from nemo_gym.client import Rollout
from nemo_gym.client._rollout import read_line
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.output.row_index import build_entry
from nemo_gym.rows.version import ROW_VERSION
from tests.rollouts.doubles import read_rows, write_dataset
from tests.rollouts.run.test_collect import out, run
from tests.rollouts.stored_runs import failure_row, scored_row, store

PROMPT = {"input": [{"role": "user", "content": "What?"}]}
ANSWER = {
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}],
    "usage": {"output_tokens": 3},
}


def versioned(task: int, version: str | None, **members: Any) -> dict[str, Any]:
    """A scored row, with its version after the identity."""
    row = scored_row(task, responses_create_params=PROMPT, response=ANSWER, **members)
    identity = {key: row.pop(key) for key in ("_ng_task_index", "_ng_rollout_index")}
    return identity | ({} if version is None else {"_ng_row_version": version}) | row


def of_another_gym(task: int) -> dict[str, Any]:
    """A row with nothing of this gym's, and its identity at the end."""
    row = {"responses_create_params": PROMPT, "response": ANSWER, "reward": 1.0}
    agent = {"type": "responses_api_agents", "name": "simple_agent"}
    return row | {"agent_ref": agent, "_ng_task_index": task, "_ng_rollout_index": 0}


MIXED = [versioned(0, "1.0"), versioned(1, None), of_another_gym(2), versioned(3, "1.7", new_key=1)]
COMMANDS = {
    "compare": ["eval", "compare", "out.jsonl", "other.jsonl"],
    "export": ["eval", "export", "out.jsonl", "--format", "sft", "-o", "sft.jsonl"],
    "report": ["eval", "report", "out.jsonl"],
    "profile": ["eval", "profile", "out.jsonl", "-o", "profile.jsonl"],
    "aggregate": ["eval", "aggregate", "out.jsonl", "shard.jsonl", "-o", "whole.jsonl"],
    "view": ["view", "out.jsonl", "--export", "page.html"],
}


def call(line: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr("sys.argv", ["gym", *line])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "other.jsonl", [versioned(0, "1.0")])
    store(tmp_path / "shard.jsonl", [versioned(9, "1.0")])
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_read_a_file_that_mixes_versions(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store(folder / "out.jsonl", MIXED)
    assert call(COMMANDS[name], monkeypatch) == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_refuse_a_row_of_a_newer_version(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store(folder / "out.jsonl", [*MIXED, versioned(4, "2.0")])
    assert call(COMMANDS[name], monkeypatch) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "out.jsonl:5" in error
    assert "version '2.0'" in error


def test_the_viewer_lists_a_row_of_a_newer_version_as_unreadable() -> None:
    assert build_entry(versioned(0, "2.0")).labels == {"outcome": "unreadable"}
    assert [build_entry(row).labels["outcome"] for row in MIXED] == ["completed"] * 4


def test_the_failures_of_a_newer_version_are_a_group_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = failure_row(1) | {"_ng_row_version": "2.0"}
    store(folder / "out.jsonl", [versioned(0, None)], [failure_row(2), newer])
    call(["eval", "failures", "out.jsonl"], monkeypatch)
    assert "version '2.0'" in " ".join(capsys.readouterr().out.split())


async def test_a_run_of_an_older_version_is_resumed(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 4)
    await run(tmp_path)
    older = [{key: row[key] for key in row if key != "_ng_row_version"} for row in read_rows(out(tmp_path))]
    out(tmp_path).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in older[:2]))
    summary = await run(tmp_path, existing=Existing.RESUME)
    rows = read_rows(out(tmp_path))
    assert rows[:2] == older[:2]
    assert [row.get("_ng_row_version") for row in rows] == [None, None, ROW_VERSION, ROW_VERSION]
    assert sorted(row["_ng_task_index"] for row in rows) == [0, 1, 2, 3]
    assert summary.missing == 0


async def test_a_run_of_a_newer_version_is_not_resumed(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 2)
    await run(tmp_path)
    whole = out(tmp_path).read_bytes()
    out(tmp_path).write_bytes(whole.replace(ROW_VERSION.encode(), b"2.0", 1))
    with pytest.raises(ConfigError, match=r"out\.jsonl:1: the row has the version '2\.0'"):
        await run(tmp_path, existing=Existing.RESUME)
    assert len(out(tmp_path).read_bytes()) == len(whole)


def test_a_client_refuses_the_rows_of_a_newer_gym() -> None:
    rollout = read_line(orjson.dumps(versioned(0, "1.7")))
    assert isinstance(rollout, Rollout)
    assert rollout.reward == 1.0
    with pytest.raises(ConfigError, match=r"the stream of rollouts: the row has the version '2\.0'"):
        read_line(orjson.dumps(versioned(0, "2.0")))
