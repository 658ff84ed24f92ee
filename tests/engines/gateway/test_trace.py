from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.engines.gateway.trace import build_trace
from nemo_gym.tokens.records import CallRecord

ANSWERS: dict[str, dict[str, Any]] = {
    "responses": {
        "model": "m",
        "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
        ],
    },
    "chat": {
        "model": "m",
        "choices": [
            {
                "message": {
                    "content": "hi",
                    "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"input": "x"}'}}],
                }
            }
        ],
    },
    "messages": {
        "model": "m",
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "c", "name": "f", "input": {"input": "x"}},
        ],
    },
}
OUTPUTS: dict[str, dict[str, Any]] = {
    "responses": {"type": "custom_tool_call_output", "call_id": "c", "output": "out"},
    "chat": {"role": "tool", "tool_call_id": "c", "content": "out"},
    "messages": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "out"}]},
}


def line(call: str, api: str, items: list[Any], answer: Any, status: int = 200) -> dict[str, Any]:
    request: dict[str, Any] = {"base": None, "kept": 0, "items": items, "set": {}}
    about = {"model_call_id": call, "dialect": api, "started_at": 1.5, "status_code": status}
    return {**about, "request": request, "response": answer}


@pytest.mark.parametrize("api", ANSWERS)
def test_calls_of_every_api_are_items(api: str) -> None:
    lines = [line("a", api, [], ANSWERS[api]), line("b", api, [OUTPUTS[api]], ANSWERS[api])]
    trace = build_trace(lines, {}, {"a", "b"})
    assert trace is not None
    kinds = [item["type"] for item in trace["output"]]
    assert kinds == ["message", "function_call", "function_call_output", "message", "function_call"]
    assert trace["output"][0]["content"][0]["text"] == "hi"
    assert trace["output"][1]["arguments"] == '{"input": "x"}'
    assert trace["output"][2] == {"type": "function_call_output", "call_id": "c", "output": "out"}


def test_the_usage_is_that_of_all_answered_calls() -> None:
    chat = {**ANSWERS["chat"], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    message = {**ANSWERS["messages"], "usage": {"input_tokens": 4, "output_tokens": 1}}
    unknown = ANSWERS["responses"]
    lines = [
        line("title", "chat", [], chat),
        line("main", "messages", [], message),
        line("c", "responses", [], unknown),
        line("failed", "chat", [], chat, 500),
    ]
    trace = build_trace(lines, {}, {"main"})
    assert trace is not None
    assert trace["usage"] == {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    trace = build_trace(lines[2:], {}, {"c"})
    assert trace is not None
    assert trace["usage"] is None


def test_every_record_is_on_one_item_and_other_conversations_are_silent() -> None:
    lines = [
        line("title", "chat", [], ANSWERS["chat"]),
        line("main", "chat", [], ANSWERS["chat"]),
        line("failed", "chat", [], None, 500),
    ]
    records = {"title": CallRecord(call=0), "main": CallRecord(call=1)}
    trace = build_trace(lines, records, {"main"})
    assert trace is not None
    numbers = [item["_ng_tokens"]["call"] for item in trace["output"] if "_ng_tokens" in item]
    assert numbers == [0, 1]
    assert trace["output"][0] == {**trace["output"][0], "type": "reasoning", "summary": []}
    assert build_trace(lines[2:], {}, set()) is None
