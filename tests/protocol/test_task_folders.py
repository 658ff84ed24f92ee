"""The folder of a task row."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from nemo_gym.protocol.task_folders import TaskFolder, TaskWithFolder


def folder_of(row: dict[str, object]) -> TaskFolder:
    return TaskWithFolder.model_validate(row).folder


@pytest.mark.parametrize("row", [{}, {"folder": None}, {"folder": {}, "other": 1}])
def test_a_row_without_a_folder_has_an_empty_one(row: dict[str, object]) -> None:
    folder = folder_of(row)
    assert (folder.files, folder.takes("a")) == ({}, False)


def test_patterns_name_the_files_to_take() -> None:
    folder = folder_of({"folder": {"files": {"src/a.py": "x"}, "take": ["src/*.py", "NOTES"]}})
    names = ["src/a.py", "src/deep/a.py", "NOTES", "notes", "src/a.txt"]
    assert [folder.takes(name) for name in names] == [True, True, True, False, False]


@pytest.mark.parametrize(
    "path", ["", ".", "..", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "a\0b"]
)
def test_a_path_that_is_not_plain_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="plain relative path"):
        folder_of({"folder": {"files": {path: ""}}})
