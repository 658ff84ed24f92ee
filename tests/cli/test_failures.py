"""`ng_failures` and `gym eval failures`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_gym.cli import main
from nemo_gym.cli.command import ExitCode
from nemo_gym.cli.failures import COMMAND, show_failures
from nemo_gym.rollouts.run.answer import Failed
from nemo_gym.rows.compose import note_failed_call
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind
from tests.rollouts.doubles import failure, planned


def run_in(folder: Path) -> Path:
    """Store a run of which two rollouts failed, one of them before it was scored."""
    lines = [Failed(failure(), "engine:engine_down").to_line(planned(task), terminal=True) for task in (0, 1)]
    (folder / "out_failures.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}
    (folder / "out.jsonl").write_text(json.dumps(row) + "\n")
    return folder / "out.jsonl"


def test_failures_without_a_row_are_shown_by_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["eval", "failures", str(run_in(tmp_path))])
    assert exited.value.code == ExitCode.COMPLETE
    assert capsys.readouterr().out == (
        "1 rollout failed and has no row\n"
        "1 × engine:engine_down\n"
        "    the engine says engine_down\n"
        "    for example task 1, rollout 0\n"
        "    -> Start it.\n"
        f"All attempts are in {tmp_path}/out_failures.jsonl.\n"
        f"note: {tmp_path}/out.jsonl: 1 of 2 rollouts have no score, and are in no mean\n"
    )


def test_the_log_of_the_server_that_failed_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run_in(tmp_path)
    failed = Failed(replace(failure(), peer="shop"), "engine:engine_down").to_line(planned(1), terminal=True)
    (tmp_path / "out_failures.jsonl").write_bytes(failed + b"\n")
    log = tmp_path / "logs" / "shop.log"
    log.parent.mkdir()
    log.touch()
    (tmp_path / "out_run.json").write_text(json.dumps({"starts": [{"logs": "logs"}]}))
    assert COMMAND.run([f"+input_jsonl_fpath={rows}"], show_failures) == 0
    assert f"    log: {log}\n" in capsys.readouterr().out


def test_json_has_a_group_for_each_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMAND.run([f"+input_jsonl_fpath={run_in(tmp_path)}", "--json"], show_failures) == 0
    (group,) = json.loads(capsys.readouterr().out)
    assert (group["count"], group["task"], group["may_pass"]) == (1, 1, False)


def test_a_run_without_failures_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_in(tmp_path)
    (tmp_path / "out_failures.jsonl").unlink()
    assert COMMAND.run([f"+input_jsonl_fpath={rows}"], show_failures) == 0
    assert capsys.readouterr().out == "no rollout failed without a row\n"


def test_a_missing_run_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMAND.run([f"+input_jsonl_fpath={tmp_path}/none.jsonl"], show_failures) == ExitCode.BAD_INPUT
    assert "there is no run at" in capsys.readouterr().err


def test_tool_calls_that_failed_in_scored_rows_are_told_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run_in(tmp_path)
    (tmp_path / "out_failures.jsonl").unlink()
    row = json.loads(rows.read_text())
    note_failed_call(row, FailedCall("guess", ToolErrorKind.RAISED, "ValueError: boom", "app.py:48"))
    note_failed_call(row, FailedCall("guess", ToolErrorKind.REJECTED, "HTTP 400: no"))
    rows.write_text(json.dumps(row) + "\n")
    assert COMMAND.run([f"+input_jsonl_fpath={rows}"], show_failures) == 0
    assert capsys.readouterr().out == (
        "no rollout failed without a row\n"
        f"note: {rows}: 1 row has tool calls that failed by the environment's fault: 1 of `guess`: "
        "ValueError: boom (app.py:48)\n"
    )


def test_rows_without_a_score_are_failures_too_and_count_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run_in(tmp_path)
    indices = {"_ng_task_index": 1, "_ng_rollout_index": 0}
    stored = [{**indices, "_ng_failure_class": "boom"}, {**indices, "_ng_task_index": 2, "reward": None}]
    with rows.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in stored)
    assert COMMAND.run([f"+input_jsonl_fpath={rows}"], show_failures) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "2 rollouts failed and stand as rows without a score"
    assert "1 × boom" in told
    assert "1 × no_score\n    the row is not a scored row: its `reward` is null" in told
    assert COMMAND.run([f"+input_jsonl_fpath={rows}", "--json"], show_failures) == 0
    assert [group["count"] for group in json.loads(capsys.readouterr().out)] == [1, 1]


def test_a_run_that_was_killed_is_said_beside_its_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run_in(tmp_path)
    document = {"schema_version": 1, "identity": {}, "starts": [{"planned": 4}]}
    (tmp_path / "out_run.json").write_text(json.dumps(document))
    assert COMMAND.run([f"+input_jsonl_fpath={rows}"], show_failures) == 0
    assert "1 of 4 planned rollouts; the run has not ended" in capsys.readouterr().out
    assert COMMAND.run([f"+input_jsonl_fpath={rows}", "--json"], show_failures) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)) == 1
    assert "1 of 4 planned rollouts" in told.err
