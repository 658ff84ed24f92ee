"""Unknown fields, files of a folder, artifacts that exclude each other."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.sources.task_folders.folder import load_folder
from nemo_gym.sources.task_folders.lint.layout import (
    find_unknown_fields,
    lint_layout,
    lint_settings,
    list_source_files,
)
from nemo_gym.sources.task_folders.settings import TaskSettings
from tests.sources.task_folders.task_maker import OFFLINE, make_task


def test_unknown_fields_are_found_at_every_depth_with_a_suggestion() -> None:
    data = {
        "agnet": {},
        "verifier": {"colect": []},
        "steps": [{"name": "a", "x": 1}],
        "metadata": {"any": 1},
        "version": "1",
    }
    assert list(find_unknown_fields(data, TaskSettings)) == [
        ("agnet", "; did you mean 'agent'?"),
        ("verifier.colect", "; did you mean 'collect'?"),
        ("steps[0].x", ""),
    ]


def test_files_that_leave_the_task_are_findings(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    (folder / "far").symlink_to("/etc/passwd")
    files, findings = list_source_files(folder)
    assert (len(files), [finding.path.name for finding in findings]) == (5, ["far"])


def test_a_right_folder_has_no_finding_but_what_it_chose(tmp_path: Path) -> None:
    task = load_folder(make_task(tmp_path / "task", f'{OFFLINE}[agent]\nuser = "worker"\n'))
    assert list(lint_layout(task, list_source_files(task.root)[0])) == []
    assert [finding.rule for finding in lint_settings(task)] == ["shared-verifier"]
