from __future__ import annotations

from pathlib import Path

from nemo_gym.audit.tool_audit import audit_tool_tasks, describe_tool_tasks
from nemo_gym.sources.tool_tasks import read_tool_tasks
from tests.audit.tool_task_folders import BLIND, write_rink


async def test_a_task_that_hangs_or_ends_its_process_is_one_failed_probe(tmp_path: Path) -> None:
    write_rink(tmp_path / "tasks" / "blind", BLIND)
    write_rink(tmp_path / "tasks" / "ending", "import os\nos._exit(3)\n")
    write_rink(tmp_path / "tasks" / "broken", "1 / 0\n")
    tasks = read_tool_tasks(tmp_path / "tasks")

    card = await audit_tool_tasks("tasks", tasks, tmp_path / "out", seed=0, resume=False)

    gold = next(each for each in card.classes if each.kind == "gold")
    assert (gold.rate.probes, gold.failed) == (1, 2)
    assert card.about["PYTHONHASHSEED"] == "0"
    assert card.false_accepts.wrong >= 2
    again = await audit_tool_tasks("tasks", tasks, tmp_path / "out", seed=0, resume=True)
    assert again.as_json() == card.as_json()


def test_the_digest_tells_changed_tasks(tmp_path: Path) -> None:
    write_rink(tmp_path / "rink")
    before = describe_tool_tasks(read_tool_tasks(tmp_path))
    (tmp_path / "rink" / "db.json").write_text("{}")
    assert describe_tool_tasks(read_tool_tasks(tmp_path)) != before
