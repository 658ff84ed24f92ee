"""`ng_pull_tasks`."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.cli import pull_tasks
from tests.sources.task_folders.task_maker import make_task


def test_it_says_how_many_tasks_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_task(tmp_path / "tasks" / "one")
    with pytest.raises(SystemExit) as ended:
        pull_tasks.main([f"+source={tmp_path}/tasks", f"+folder={tmp_path}/new"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"1 task folders in {tmp_path}/new\n"


def test_a_source_without_tasks_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as ended:
        pull_tasks.main([f"+source={tmp_path}/empty", f"+folder={tmp_path}/new"])
    assert ended.value.code == 2
    assert not (tmp_path / "new").exists()
