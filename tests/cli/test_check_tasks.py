"""`ng_check_tasks`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import check_tasks
from tests.sources.task_folders.task_maker import make_task


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        check_tasks.main([*arguments, "+no_run=true"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_right_folders_are_counted_and_wrong_ones_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_task(tmp_path / "right")
    assert run(f"+folder={tmp_path}") == 0
    assert "1 of 1 folders are right" in capsys.readouterr().out
    make_task(tmp_path / "wrong", without=("tests/test.sh",))
    assert run(f"+folder={tmp_path}") == 1
    said = capsys.readouterr().out
    assert "WRONG wrong" in said
    assert "wrong: 1 missing_tests" in said


def test_json_has_every_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_task(tmp_path / "right")
    assert run(f"+folder={tmp_path}", "+json=true", "+select=[root-agent]") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [finding["rule"] for finding in found["findings"]] == ["root-agent"]


def test_a_finding_names_its_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_task(tmp_path / "right")
    assert run(f"+folder={tmp_path}", "+select=[unpinned-image]") == 0
    assert "lint: environment/Dockerfile:1: FROM: the image ubuntu:22.04" in capsys.readouterr().out


def test_a_rule_that_is_none_is_refused_with_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("+folder=nowhere", "+select=[root-agent,bogus]") == 2
    assert "'unpinned-image'" in capsys.readouterr().err
