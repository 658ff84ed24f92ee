from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.export.report import LeftOut
from nemo_gym.failures import ConfigError
from tests.export.rows import TOOL, call, exported, output, row, text, two_agents


def with_properties(**properties: Any) -> list[dict[str, Any]]:
    return [{**TOOL, "parameters": {"type": "object", "properties": properties}}]


def test_tools_come_back_from_parquet_as_they_were(tmp_path: Path) -> None:
    items = [call("Oslo"), output("rain"), text("It rains.")]
    (written, bare), _ = exported(
        tmp_path, "verl", [row(0, items=items, tools=[TOOL]), row(1)], name="out.parquet"
    )
    function = {key: value for key, value in TOOL.items() if key != "type"}
    assert written["tools"] == [{"type": "function", "function": function}]
    assert bare["tools"] is None
    first_call = written["messages"][1]["tool_calls"][0]
    assert first_call["function"] == {"name": "get_weather", "arguments": '{"city":"Oslo"}'}


def test_tools_of_another_shape_are_not_mixed_into_the_column(tmp_path: Path) -> None:
    """Parquet would give both tools both properties, one of them null, and so another prompt."""
    rows = [
        row(0, tools=with_properties(city={"type": "string"})),
        row(1, tools=with_properties(day={"type": "string"})),
        row(2, tools=[{**TOOL, "parameters": {"type": "object", "properties": {}}}]),
    ]
    written, report = exported(tmp_path, "verl", rows, name="out.parquet")
    assert len(written) == 1
    assert report.left_out == {LeftOut.OTHER_TOOLS: 1, LeftOut.EMPTY_OBJECT: 1}


def test_tools_of_any_shape_are_carried_as_text(tmp_path: Path) -> None:
    tools = [
        with_properties(city={"type": "string"}),
        with_properties(day={"type": "string", "enum": ["today"]}, hour={"type": "integer"}),
        [
            {**TOOL, "parameters": {"type": "object", "properties": {}}},
            *with_properties(city={"type": "string"}),
        ],
    ]
    rows = [*(row(number, tools=each) for number, each in enumerate(tools)), row(9)]
    written, report = exported(tmp_path, "verl", rows, name="out.parquet", options={"tools": "text"})
    assert not report.left_out
    assert written[3]["tools"] is None
    read = [orjson.loads(each["tools"]) for each in written[:3]]
    assert [[tool["function"]["parameters"] for tool in each] for each in read] == [
        [tool["parameters"] for tool in each] for each in tools
    ]


def test_a_task_is_one_row_with_the_mean_reward_of_its_rollouts(tmp_path: Path) -> None:
    rows = [row(7, 0, 1.0, _ng_outcome="truncated"), row(7, 1, 0.0)]
    (written,), report = exported(tmp_path, "verl", rows, name="out.parquet", options={"form": "rl"})
    assert written["data_source"] == "weather_agent"
    assert written["prompt"] == [{"role": "user", "content": "Question 7?"}]
    assert written["extra_info"] == {"index": 7, "mean_reward": 0.5, "rollouts": 2, "tools": "[]"}
    assert report.left_out == {LeftOut.REPEATED_TASK: 1}


def test_verl_takes_parquet_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"verl is written as \.parquet"):
        exported(tmp_path, "verl", [row()])


def test_the_mean_reward_of_a_task_is_of_one_agent(tmp_path: Path) -> None:
    rows = two_agents((0, 1), (0, 0), (0, 0.5))
    written, _ = exported(tmp_path, "verl", rows, name="out.parquet", options={"form": "rl"})
    assert [
        (each["data_source"], each["extra_info"]["mean_reward"], each["extra_info"]["rollouts"])
        for each in written
    ] == [("a", 0.0, 3), ("b", 0.5, 3)]
