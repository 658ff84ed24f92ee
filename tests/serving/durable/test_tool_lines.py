from __future__ import annotations

from pathlib import Path

from nemo_gym.serving.durable.lines import RecordFile
from nemo_gym.serving.durable.tool_lines import SUFFIX, describe_given, read_tool_lines


def test_calls_are_read_in_the_order_of_their_results_without_torn_lines(tmp_path: Path) -> None:
    for process, times in (("dice.0", (1.0, 4.0)), ("dice.1", (2.0, 3.0))):
        file = RecordFile(tmp_path, process, SUFFIX)
        for ended_at in times:
            file.append({"path": "/roll", "ended_at": ended_at, "given": ended_at == 3.0})
    with file.path.open("ab") as torn:
        torn.write(b'{"path": "/ro')
    assert [line["ended_at"] for line in read_tool_lines(tmp_path)] == [1.0, 2.0, 3.0, 4.0]
    assert describe_given(tmp_path) == {"tools_recorded": 1}


def test_a_record_without_tools_tells_nothing(tmp_path: Path) -> None:
    assert read_tool_lines(tmp_path / "none") == []
    assert describe_given(tmp_path) == {}
