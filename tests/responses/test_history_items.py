"""Chat messages as items of a Responses conversation."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses.dialects import VLLM, Dialect, ReasoningHistory
from nemo_gym.responses.history_items import convert_message_to_items, is_chat_shaped
from nemo_gym.responses.problems import ConversionProblems

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def items_of(message: dict[str, Any], dialect: Dialect = VLLM) -> list[dict[str, Any]]:
    problems = ConversionProblems()
    items = convert_message_to_items(message, "messages[0]", problems, dialect)
    problems.raise_if_any("the Responses API")
    return items


def test_an_assistant_message_is_reasoning_text_and_calls_in_this_order() -> None:
    message = {"role": "assistant", "content": "I call.", "reasoning": "Hm.", "tool_calls": [CALL]}
    reasoning, text, call = items_of(message | {"generation_token_ids": [1]})
    assert reasoning == {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    assert text == {"type": "message", "role": "assistant", "content": "I call."}
    assert (call["call_id"], call["generation_token_ids"]) == ("c1", [1])


def test_an_empty_assistant_message_is_still_an_item() -> None:
    (item,) = items_of({"role": "assistant", "content": None})
    assert item == {"type": "message", "role": "assistant", "content": ""}


def test_a_refusal_stays_apart_from_the_text() -> None:
    (item,) = items_of({"role": "assistant", "content": "Well.", "refusal": "No."})
    assert item["content"] == [
        {"type": "output_text", "text": "Well."},
        {"type": "refusal", "refusal": "No."},
    ]


def test_inline_thinking_is_reasoning_where_the_dialect_says_so() -> None:
    message = {"role": "assistant", "content": "<think>Hm.</think>Yes."}
    assert [item["type"] for item in items_of(message)] == ["message"]
    inline = items_of(message, Dialect(reasoning_history=ReasoningHistory.INLINE))
    assert [item["type"] for item in inline] == ["reasoning", "message"]
    assert inline[1]["content"] == "Yes."


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "robot"}, "messages[0].role"),
        ({"role": "user", "content": "x", "weight": 0}, "messages[0].weight"),
        ({"role": "tool", "content": "3"}, "messages[0].tool_call_id"),
        ({"role": "assistant", "reasoning": "a", "reasoning_content": "b"}, "messages[0].reasoning_content"),
        ({"role": "assistant", "reasoning": ["a"]}, "messages[0].reasoning"),
        ({"role": "assistant", "tool_calls": [{"type": "custom"}]}, "messages[0].tool_calls[0].type"),
    ],
)
def test_a_message_without_a_counterpart_names_its_field(message: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        items_of(message)
    assert caught.value.failure.param == field


@pytest.mark.parametrize(
    ("item", "is_chat"),
    [
        ({"role": "tool"}, True),
        ({"role": "user", "content": "x"}, False),
        ({"role": "assistant", "tool_calls": None}, False),
        ({"role": "assistant", "tool_calls": []}, True),
    ],
)
def test_chat_messages_among_items_are_recognised(item: dict[str, Any], is_chat: bool) -> None:
    assert is_chat_shaped(item) is is_chat
