"""`ng_fork`, `gym fork`, `gym rewind` and `gym forget`: what a user does wrong, with the message and the exit code.

tests/rollouts/lookback/test_forks.py makes forks; docs/continue_fork_rewind.md runs the commands.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.cli import main
from tests.rollouts.recorded_attempts import leave_attempt

ROW = {"_ng_task_index": 0, "_ng_rollout_index": 0, "_ng_row_version": "1.1"}
TASK = {"responses_create_params": {"input": "hi"}, "agent_ref": {"name": "agent"}}
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run of one rollout, whose record has three calls."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "out.jsonl").write_bytes(orjson.dumps({**ROW, **TASK, "reward": 1.0}) + b"\n")
    (tmp_path / "out_materialized_inputs.jsonl").write_bytes(orjson.dumps({**ROW, **TASK}) + b"\n")
    manifest = {"schema_version": 1, "identity": {"config": {}}, "starts": []}
    (tmp_path / "out_run.json").write_text(json.dumps(manifest))
    leave_attempt(tmp_path / "out_attempts" / "0.0.a0", answered=3)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return run_command


COLLECT = ("collect_rollouts", "+input_jsonl_fpath=tasks.jsonl", "+output_jsonl_fpath=new.jsonl")
MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no such run": (("fork", "none.jsonl", "--turn", "1"), "there is no run at none.jsonl"),
    "no run named": (("fork", "--turn", "1"), "Missing argument: FILE"),
    "no turn": (("fork", "out.jsonl"), "turn is required"),
    "a turn after the end": (("fork", "out.jsonl", "--turn", "99"), "has 3 answered calls, and no turn 99"),
    "a turn before the beginning": (("fork", "out.jsonl", "--turn", "-4"), "no turn -4"),
    "a turn that is no number": (("fork", "out.jsonl", "--turn", "two"), "'two' is not a valid int"),
    "a turn that is half": (("fork", "out.jsonl", "+turn=1.5"), "turn"),
    "no forks": (("fork", "out.jsonl", "--turn", "1", "-n", "0"), "num_forks"),
    "too many forks": (("fork", "out.jsonl", "--turn", "1", "-n", "10001"), "num_forks"),
    "another task": (("fork", "out.jsonl", "--turn", "1", "--task", "7"), "has no task 7"),
    "another repeat": (
        ("fork", "out.jsonl", "--turn", "1", "--task", "0", "--repeat", "3"),
        "no record of task 0, repeat 3",
    ),
    "an unknown class": (("fork", "out.jsonl", "--turn", "1", "--noise", "durations"), "replay_noise"),
    "the run as output": (("fork", "out.jsonl", "--turn", "1", "-o", "out.jsonl"), "out.jsonl"),
    "an output without an ending": (
        ("fork", "out.jsonl", "--turn", "1", "-o", "forks"),
        "does not end in .jsonl",
    ),
    "resumed and overwritten": (
        ("fork", "out.jsonl", "--turn", "1", "--resume", "--overwrite"),
        "exclude each other",
    ),
    "no gym": (("fork", "out.jsonl", "--turn", "1"), "no gym runs in this folder"),
    "rewound without a gym": (("rewind", "out.jsonl", "--turn", "1"), "no gym runs in this folder"),
    "a rewind of several": (("rewind", "out.jsonl", "--turn", "1", "-n", "3"), "No such option '-n'"),
    "nothing to forget": (("forget", "none.jsonl"), "there is no run at none.jsonl"),
    "an unknown durability": ((*COLLECT, "+durability=yes"), "durability"),
    "records that are not made": ((*COLLECT, "+keep_attempts=all"), "durability=process"),
    "unknown records to keep": ((*COLLECT, "+keep_attempts=some"), "keep_attempts"),
    "noise that does not exist": ((*COLLECT, "+replay_noise=[durations]"), "replay_noise"),
    "an unknown treatment": ((*COLLECT, "+on_mismatch=ignore"), "on_mismatch"),
    "a negative staleness": ((*COLLECT, "+max_replay_staleness=-1"), "max_replay_staleness"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_ends_with_2(run: Run, mistake: str) -> None:
    arguments, said = MISTAKES[mistake]
    code, printed = run(*arguments)
    assert (code, said in printed) == (2, True), printed


def test_a_deleted_record_is_named_with_the_way_to_keep_the_next(run: Run, folder: Path) -> None:
    assert run("forget", "out.jsonl")[0] == 0
    code, printed = run("fork", "out.jsonl", "--turn", "1")
    assert code == 2
    assert "deleted with its row safe" in printed
    assert "+keep_attempts=all" in printed


def test_forks_that_exist_are_not_written_over(run: Run, folder: Path) -> None:
    (folder / "out_forks.jsonl").write_bytes((folder / "out.jsonl").read_bytes())
    code, printed = run("fork", "out.jsonl", "--turn", "1")
    assert code == 2
    assert "out_forks.jsonl belongs to an earlier run" in printed


def test_a_run_without_its_manifest_is_not_forked(run: Run, folder: Path) -> None:
    (folder / "out_run.json").unlink()
    code, printed = run("fork", "out.jsonl", "--turn", "1")
    assert (code, "has no manifest" in printed) == (2, True)


def test_a_record_with_a_mismatch_is_not_forked(run: Run, folder: Path) -> None:
    leave_attempt(folder / "out_attempts" / "0.0.a0", answered=1, mismatch=True)
    code, printed = run("fork", "out.jsonl", "--turn", "1")
    assert (code, "no record" in printed) == (2, True)


@pytest.mark.parametrize("verb", ["fork", "rewind"])
def test_a_dry_run_tells_the_cost_without_a_gym(run: Run, verb: str) -> None:
    code, printed = run(verb, "out.jsonl", "--turn", "-1", "--dry-run")
    assert code == 0
    assert "after call 2 share" in printed
    code, printed = run(verb, "out.jsonl", "--turn", "2", "--dry-run", "--json")
    told: dict[str, Any] = json.loads(printed)
    assert [parent["turn"] for parent in told["parents"]] == [2]
