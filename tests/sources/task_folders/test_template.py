"""A new task folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.task_folders.folder import load_folder
from nemo_gym.sources.task_folders.requirements import Terms, find_refusals
from nemo_gym.sources.task_folders.template import write_task


def test_a_new_task_loads_and_needs_nothing(tmp_path: Path) -> None:
    assert len(write_task(tmp_path / "my task")) == 6
    task = load_folder(tmp_path / "my task")
    assert task.settings.task is not None
    assert task.settings.task.name == "my-org/my-task"
    assert find_refusals(task, Terms()) == []


def test_nothing_is_overwritten_and_a_name_has_to_be_portable(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        write_task(tmp_path / "full")
    with pytest.raises(ConfigError, match="is a file, and a task is a folder"):
        write_task(tmp_path / "full" / "file")
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        write_task(tmp_path / "full" / "file" / "task")
    with pytest.raises(ConfigError, match="cannot have this name"):
        write_task(tmp_path / "CON")
