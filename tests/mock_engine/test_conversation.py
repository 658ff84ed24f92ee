"""Questions that policies ask about a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.mock_engine.conversation import (
    drop_until_last_user,
    last_tool_output,
    last_user_text,
    list_called_tools,
    read_parameters,
    read_reasoning,
    read_text,
    turns_taken,
)

CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "First."},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": [{"type": "text", "text": "Second "}, {"type": "image_url"}, "end"]},
    {"role": "assistant", "content": None, "reasoning_content": "Add.", "tool_calls": [CALL, CALL]},
    {"role": "tool", "tool_call_id": "1", "content": "3"},
    {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "4"}]},
]


def test_a_conversation_is_read_from_its_last_user_message() -> None:
    assert last_user_text(TALK) == "Second [image_url]end"
    assert drop_until_last_user(TALK) == TALK[4:]
    assert list_called_tools(drop_until_last_user(TALK)) == ["add", "add"]
    assert last_tool_output(TALK) == "4"
    assert turns_taken(TALK) == 2


def test_a_conversation_without_a_user_has_no_question() -> None:
    assert last_user_text(TALK[:1]) == ""
    assert drop_until_last_user(TALK[:1]) == TALK[:1]
    assert last_tool_output(TALK[:4]) is None


@pytest.mark.parametrize(
    ("content", "text"), [(None, ""), ("x", "x"), ([], ""), ([3, {"text": 5}], "[part]")]
)
def test_the_text_of_content_in_any_form(content: Any, text: str) -> None:
    assert read_text(content) == text


def test_reasoning_has_two_names_and_a_tool_may_have_no_parameters() -> None:
    assert read_reasoning({"reasoning": "a", "reasoning_content": "b"}) == "a"
    assert read_reasoning(TALK[4]) == "Add."
    assert read_reasoning({}) == ""
    assert read_parameters({"function": {"name": "f", "parameters": None}}) == {}
