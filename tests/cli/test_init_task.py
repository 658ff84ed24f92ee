"""`ng_init_task`."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.cli import init_task
from nemo_gym.sources.task_folders.folder import load_folder


def test_it_writes_a_task_and_names_the_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        init_task.main([f"+folder={tmp_path}/task"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.endswith(f"next: gym dataset validate {tmp_path}/task\n")
    assert load_folder(tmp_path / "task").instruction()


def test_a_folder_that_exists_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "tasks.tar.gz").touch()
    for folder in (tmp_path, tmp_path / "tasks.tar.gz"):
        with pytest.raises(SystemExit) as ended:
            init_task.main([f"+folder={folder}"])
        assert ended.value.code == 2
