"""A run checked on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym import cli
from nemo_gym.cli import health_check
from tests.rollouts.stored_runs import scored_row, store

ANSWER = {"output": [{"type": "message", "role": "assistant", "content": "It is 7."}]}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [scored_row(task, repeat, reward=repeat, response=ANSWER) for task in (0, 1) for repeat in (0, 1)]
    store(tmp_path / "good.jsonl", rows)
    rows[1] |= {"_ng_outcome": "truncated", "_ng_end_reason": "max_steps"}
    store(tmp_path / "signs.jsonl", rows)
    rows[2] = scored_row(1, 0, reward=0)
    rows[3]["response"] = {"output": [{"type": "message", "role": "assistant", "content": "|`\n"}] * 2}
    store(tmp_path / "faults.jsonl", [*rows, rows[3]])


def run(name: str, *arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        health_check.main([f"+input_jsonl_fpath={name}.jsonl", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_healthy_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("good", "+strict=true") == 0
    assert capsys.readouterr().out == "4 rows, 19 rules: nothing found\n"


def test_faults_fail_and_signs_only_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert (run("signs"), run("signs", "+strict=true"), run("faults")) == (0, 1, 1)
    assert run("faults", "+skip=[empty_turn,duplicate_rollout]") == 0
    assert run("signs", "+strict=true", "+skip=truncated") == 0
    capsys.readouterr()


def test_places_and_words_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("faults", "+places=1") == 1
    assert capsys.readouterr().out.splitlines() == [
        "fault empty_turn (1): A model turn has neither text nor a call.",
        "      line 3, task 1, repeat 0: the response has no output",
        "fault duplicate_rollout (1): Several rows have the same task and repeat.",
        "      line 5, task 1, repeat 1: same rollout as line 4",
        "sign  truncated (1): A limit cut the rollout.",
        "      line 2, task 0, repeat 1: max_steps",
        "5 rows, 19 rules: faults: empty_turn, duplicate_rollout; signs: truncated",
    ]


def test_markdown_and_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("faults", "--markdown") == 1
    printed = capsys.readouterr().out
    assert (
        "- **truncated** (sign, 1): A limit cut the rollout.\n  - line 2, task 0, repeat 1: `max_steps`"
        in printed
    )
    assert run("faults", "+json=true") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["healthy"], found["faults"]) == (5, False, True)
    counts = {rule["rule"]: rule["count"] for rule in found["rules"] if rule["count"]}
    assert counts == {"empty_turn": 1, "duplicate_rollout": 1, "truncated": 1}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [("gone", [], "there is no run at gone.jsonl"), ("good", ["+skip=empty"], "there is no rule 'empty'")],
)
def test_wrong_usage_is_refused(
    capsys: pytest.CaptureFixture[str], name: str, arguments: list[str], message: str
) -> None:
    assert run(name, *arguments) == 2
    assert message in capsys.readouterr().err


def test_gym_has_a_short_form(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["gym", "eval", "health-check", "signs.jsonl", "--skip", "truncated"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert "18 rules: nothing found" in capsys.readouterr().out
