"""Questions that policies ask about a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.mock_engine.conversation import (
    called_tools,
    last_tool_output,
    last_user_text,
    parameters_of,
    reasoning_of,
    since_last_user,
    text_of,
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
    assert since_last_user(TALK) == TALK[4:]
    assert called_tools(since_last_user(TALK)) == ["add", "add"]
    assert last_tool_output(TALK) == "4"
    assert turns_taken(TALK) == 2


def test_a_conversation_without_a_user_has_no_question() -> None:
    assert last_user_text(TALK[:1]) == ""
    assert since_last_user(TALK[:1]) == TALK[:1]
    assert last_tool_output(TALK[:4]) is None


@pytest.mark.parametrize(
    ("content", "text"), [(None, ""), ("x", "x"), ([], ""), ([3, {"text": 5}], "[part]")]
)
def test_the_text_of_content_in_any_form(content: Any, text: str) -> None:
    assert text_of(content) == text


def test_reasoning_has_two_names_and_a_tool_may_have_no_parameters() -> None:
    assert reasoning_of({"reasoning": "a", "reasoning_content": "b"}) == "a"
    assert reasoning_of(TALK[4]) == "Add."
    assert reasoning_of({}) == ""
    assert parameters_of({"function": {"name": "f", "parameters": None}}) == {}
