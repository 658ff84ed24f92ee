"""Requests of the responses route."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.mock_engine._responses_input import convert_input, parse_responses
from nemo_gym.mock_engine.refusals import Refusal
from nemo_gym.mock_engine.request import ToolChoice
from tests.mock_engine.wire import USER


def test_items_of_one_turn_become_one_message_again() -> None:
    def call(name: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"}

    items = [
        USER,
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I add."}]},
        call("add"),
        call("sub"),
        {"type": "function_call_output", "call_id": "add", "output": "3"},
        {"role": "assistant", "content": "3"},
        {"role": "assistant", "content": "Sure."},
    ]
    messages = convert_input({"instructions": "Be brief.", "input": items})
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        *["assistant", "tool"],
        *["assistant"] * 2,
    ]
    turn = messages[2]
    assert turn["reasoning"] == "Hm."
    assert turn["content"][0]["text"] == "I add."
    assert [made["function"]["name"] for made in turn["tool_calls"]] == ["add", "sub"]


@pytest.mark.parametrize(
    ("fields", "message", "status"),
    [
        ({"previous_response_id": "resp_1"}, "resp_1", 404),
        ({"input": [{"type": "web_search_call"}]}, "web_search_call", 400),
        ({"tools": [{"type": "web_search"}]}, "function with a `name`", 400),
        ({"text": {"format": {"type": "grammar"}}}, "text.format", 400),
        ({"input": None}, "`input` must be", 400),
    ],
)
def test_what_the_responses_route_can_t_do_is_refused(
    fields: dict[str, Any], message: str, status: int
) -> None:
    with pytest.raises(Refusal, match=message) as raised:
        parse_responses({"input": "Hello", **fields})
    assert raised.value.answer.status == status


def test_the_responses_route_bears_an_empty_tool_list_and_a_choice_of_auto() -> None:
    assert (
        parse_responses({"input": "Hello", "tools": [], "tool_choice": "auto"}).tool_choice is ToolChoice.NONE
    )
