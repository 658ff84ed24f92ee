"""The output items of recorded calls, in all three APIs."""

from __future__ import annotations

from typing import Any

import pytest

from responses_api_agents.external_agent.record import output_of_calls, usage_of

RESULT = "function_call_output"
RESPONSES: list[dict[str, Any]] = [
    {
        "dialect": "responses",
        "request": {"input": "x"},
        "response": {
            "output": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'}]
        },
    },
    {
        "dialect": "responses",
        "request": {"input": [{"type": RESULT, "call_id": "c", "output": "seen"}]},
        "response": {"output": [{"type": "message", "role": "assistant", "content": []}]},
    },
]
CHAT: list[dict[str, Any]] = [
    {
        "dialect": "chat",
        "request": {"messages": [{"role": "user", "content": "x"}]},
        "response": {
            "choices": [
                {
                    "message": {
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "c",
                                "type": "function",
                                "function": {"name": "f", "arguments": '{"a": 1}'},
                            }
                        ],
                    }
                }
            ]
        },
    },
    {
        "dialect": "chat",
        "request": {"messages": [{"role": "tool", "tool_call_id": "c", "content": "seen"}]},
        "response": {"choices": [{"message": {"content": "done"}}]},
    },
]
MESSAGES: list[dict[str, Any]] = [
    {
        "dialect": "messages",
        "request": {"messages": [{"role": "user", "content": "x"}]},
        "response": {"content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]},
    },
    {
        "dialect": "messages",
        "request": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c",
                            "content": [{"type": "text", "text": "seen"}],
                        }
                    ],
                }
            ]
        },
        "response": {"content": [{"type": "text", "text": "done"}]},
    },
]


@pytest.mark.parametrize("calls", [RESPONSES, CHAT, MESSAGES], ids=["responses", "chat", "messages"])
def test_calls_and_the_results_of_their_tools_become_one_output(calls: list[dict[str, Any]]) -> None:
    recorded = [{**call, "status_code": 200, "tokens": {"call": n}} for n, call in enumerate(calls)]
    output = output_of_calls(recorded)
    assert [item["type"] for item in output] == ["function_call", RESULT, "message"]
    assert output[0]["arguments"].replace(" ", "") == '{"a":1}'
    assert output[1] == {"type": RESULT, "call_id": "c", "output": "seen"}
    assert [item.get("_ng_tokens") for item in output] == [{"call": 0}, None, {"call": 1}]


def test_calls_without_an_answer_are_left_out() -> None:
    assert output_of_calls([{**RESPONSES[0], "status_code": 500}, {"status_code": 200}]) == []


def test_usage_has_one_form() -> None:
    wanted = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert usage_of({"usage": {"prompt_tokens": 3, "completion_tokens": 2}}) == wanted
    assert usage_of({"usage": {"input_tokens": 3, "output_tokens": 2}}) == wanted
    assert usage_of({}) is None
