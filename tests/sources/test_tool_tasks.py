from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError
from nemo_gym.sources.tool_tasks import find_tool_tasks, read_tool_tasks
from tests.audit.tool_task_folders import write_rink


def test_a_folder_of_folders_is_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("rink_b", "rink_a"):
        write_rink(tmp_path / name)
    (tmp_path / "LICENSE").write_text("MIT")

    tasks = read_tool_tasks(tmp_path)

    assert [task.name for task in tasks] == ["rink_a", "rink_b"]
    assert tasks[0].metadata == {"name": "rink", "tier": 1}
    assert str(tasks[0].gold[1]) == "book_session(session_id='S-2', count=6)"


def test_one_task_is_a_folder_of_itself(tmp_path: Path) -> None:
    assert find_tool_tasks(write_rink(tmp_path / "rink")) == [tmp_path / "rink"]


def test_the_problems_of_all_tasks_come_at_once(tmp_path: Path) -> None:
    write_rink(tmp_path / "a", gold=[["book_session"], "nothing"])
    (write_rink(tmp_path / "b") / "instruction.md").unlink()
    (write_rink(tmp_path / "c") / "gold.json").write_text("[")

    with pytest.raises(ConfigErrors) as raised:
        read_tool_tasks(tmp_path)

    texts = [str(problem) for problem in raised.value.problems]
    assert [Path(text.split(": ")[0]).relative_to(tmp_path).parts[0] for text in texts] == [
        "a",
        "a",
        "b",
        "c",
    ]
    assert "call 0 is not [tool, arguments]" in texts[0]
    assert "instruction.md, which is missing" in texts[2]


def test_a_folder_without_tasks_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no tool tasks"):
        read_tool_tasks(tmp_path)
