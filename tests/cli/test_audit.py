"""Audits on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import cli
from nemo_gym.cli import audit
from tests.audit.tool_task_folders import BLIND, write_rink


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["audit", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_folder_of_tool_tasks_gets_a_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rink(tmp_path / "tasks" / "blind", BLIND)
    write_rink(tmp_path / "tasks" / "rink")
    tasks, first, second = (str(tmp_path / name) for name in ("tasks", "first", "second"))

    assert run(tasks, "--dry-run") == 0
    assert "2 tool tasks" in capsys.readouterr().out
    assert run(tasks, "-o", first, "--seed", "4", "--json") == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["tasks"], card["seed"], card["enough"]) == (2, 4, False)
    assert card == json.loads((tmp_path / "first" / "card.json").read_text())

    assert run(tasks, "-o", first) == 2
    assert "has an earlier audit" in capsys.readouterr().err
    assert run(tasks, "-o", first, "--seed", "4", "--resume", "--baseline", f"{first}/card.json") == 0
    assert run(tasks, "-o", second, "--fail-above", "0.2") == 1
    assert "is above 20.00%" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("+folder=absent",), "absent has no tool tasks"),
        (("+folder=absent", "+baseline=absent.json"), "absent.json cannot be read"),
        (("+folder=absent", "+max_probes=0"), "max_probes"),
        (("absent",), "absent"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err


def test_an_environment_is_audited_over_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("mcqa", "--dry-run") == 0
    assert "mcqa: 6 tasks, about" in capsys.readouterr().out
    assert run("mcqa", "-o", str(tmp_path / "card"), "--limit", "2", "--fail-above", "0", "--json") == 0
    captured = capsys.readouterr()
    assert "2 of 2 tasks" in captured.err
    card = json.loads(captured.out)
    assert card["tasks"] == 2
    assert any(each["class"].startswith("after a restart") and each["probes"] for each in card["classes"])
    assert card["false_accepts"]["wrong"] == card["false_rejects"]["wrong"] == 0


def test_words_of_a_server_in_the_same_process_are_no_part_of_the_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rink(tmp_path / "tasks" / "rink")
    audit_folder = audit._audit_folder

    def audit_aloud(*given: Any) -> Any:
        sys.stdout.write("DEBUG: a verdict")
        return audit_folder(*given)

    monkeypatch.setattr(audit, "_audit_folder", audit_aloud)
    assert run(str(tmp_path / "tasks"), "-o", str(tmp_path / "card"), "--json") == 0
    captured = capsys.readouterr()
    assert "DEBUG: a verdict" in captured.err
    assert json.loads(captured.out)["tasks"] == 1
