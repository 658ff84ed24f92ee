"""`ng_check_tasks`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import check_tasks
from tests.sandbox.rootless_images import needs_rootless
from tests.sources.task_folders.task_maker import make_task


def run(*arguments: str, no_run: str = "true") -> int:
    with pytest.raises(SystemExit) as ended:
        check_tasks.main([*arguments, f"+no_run={no_run}"])
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


@pytest.mark.parametrize(
    ("is_file", "said"),
    [(False, "There is no folder"), (True, "is a file, and tasks are folders.\n-> Name its folder, ")],
)
def test_a_folder_that_is_none_is_wrong_usage(
    is_file: bool, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_file:
        (tmp_path / "task.toml").touch()
    assert run(f"+folder={tmp_path}/task.toml") == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("provider", "said"),
    [("rotless", "There is no sandbox provider 'rotless' here."), ("local", "runs no task folders")],
)
@pytest.mark.parametrize("no_run", ["true", "false"])
def test_a_provider_that_cannot_run_tasks_is_refused_with_those_that_can(
    provider: str, said: str, no_run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_task(tmp_path / "right")
    assert run(f"+folder={tmp_path}", f"+sandbox_provider={provider}", no_run=no_run) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "-> Write +sandbox_provider=NAME with one of apptainer, docker, podman, rootless." in error


def test_a_provider_without_its_program_is_refused_before_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_task(tmp_path / "right")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(f"+folder={tmp_path}", "+sandbox_provider=docker", no_run="false") == 2
    assert "the sandbox provider 'docker' cannot run" in capsys.readouterr().err


@needs_rootless
def test_a_missing_base_system_is_refused_before_a_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_task(tmp_path / "right")
    assert run(f"+folder={tmp_path}", f"+store={tmp_path}/store", no_run="false") == 2
    assert "has no base system, which `gym env prefetch` installs" in capsys.readouterr().err


def test_a_rule_that_is_none_is_refused_with_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("+folder=nowhere", "+select=[root-agent,bogus]") == 2
    assert "'unpinned-image'" in capsys.readouterr().err
