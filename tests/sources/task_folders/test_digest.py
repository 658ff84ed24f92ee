"""The identity of a task folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from nemo_gym.sources.task_folders.digest import digest_folder, list_content
from tests.sources.task_folders.task_maker import make_task


def test_a_digest_is_that_of_paths_and_contents(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    digest = digest_folder(folder)
    shutil.copytree(folder, tmp_path / "copy")
    assert digest_folder(tmp_path / "copy") == digest
    (folder / "notes.txt").write_text("no part of the task")
    (folder / "tests" / "a.pyc").write_text("no part of the task")
    assert digest_folder(folder) == digest
    (folder / "tests" / "test.sh").rename(folder / "tests" / "other.sh")
    assert digest_folder(folder) != digest


def test_files_are_in_the_order_of_their_paths(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task", README__md="x")
    names = [path.relative_to(folder).as_posix() for path in list_content(folder)]
    assert names == sorted(names)
    assert "task.toml" in names
