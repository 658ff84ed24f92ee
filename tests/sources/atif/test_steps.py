"""A step is read as items in a fixed order."""

from __future__ import annotations

from nemo_gym.sources.atif.steps import read_items, write_arguments


def test_reasoning_message_calls_and_outputs_follow_each_other() -> None:
    step = {
        "step_id": 2,
        "source": "agent",
        "message": "hi",
        "reasoning_content": "hm",
        "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {"ü": 1}}],
        "observation": {"results": [{"source_call_id": "c"}, {"content": "x"}]},
    }
    items = read_items(step, None)
    assert [item["type"] for item in items] == [
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert items[2]["arguments"] == write_arguments({"ü": 1}) == '{"ü": 1}'
    assert [item["output"] for item in items[3:]] == ["", "x"]


def test_an_empty_message_is_an_item_only_if_there_is_nothing_else() -> None:
    empty = {"step_id": 1, "source": "agent", "message": ""}
    assert [item["type"] for item in read_items(empty, None)] == ["message"]
    assert [item["type"] for item in read_items({**empty, "reasoning_content": ""}, None)] == ["reasoning"]
