"""Requests as coding agents send them pass the strict conversions, with a note for each change."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses import build_chat_request
from nemo_gym.responses.harness_requests import (
    DROPPED_FROM_MESSAGES,
    DROPPED_FROM_RESPONSES,
    reduce_message_request,
    reduce_response_request,
    sanitize_streaming_responses_body,
)
from nemo_gym.responses.messages_request import convert_message_request

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
CODEX = {
    "model": "policy",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Work."}], "phase": "x"},
        {"type": "message", "role": "user", "content": "Go."},
        {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "p", "status": "completed"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ],
    "tools": [FUNCTION | {"defer_loading": True}, {"type": "custom", "name": "apply_patch"}, {"type": "web_search"}],
    "tool_choice": "auto",
    "include": ["reasoning.encrypted_content", "web_search_call.results"],
    "client_metadata": {"session": "1"},
    "truncation": "auto",
    "a_field_of_next_year": 1,
}  # fmt: skip
CLAUDE = {
    "model": "claude",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Go."}],
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1a2b;"},
        {"type": "text", "text": "Work.", "cache_control": {"type": "ephemeral"}},
    ],
    "tools": [
        {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}, "defer_loading": True},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ],
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    "inference_geo": "eu",
}  # fmt: skip


def codes(notes: Any) -> list[tuple[str, str]]:
    return sorted((note.code, note.field) for note in notes)


def test_a_request_of_a_coding_agent_becomes_a_chat_request() -> None:
    with pytest.raises(InputError):
        build_chat_request(CODEX)
    tolerated = reduce_response_request(CODEX)
    chat = build_chat_request(tolerated.body).body
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["f", "apply_patch"]
    assert [message["role"] for message in chat["messages"]] == ["developer", "user", "assistant", "tool"]
    assert chat["messages"][2]["tool_calls"][0]["function"] == {
        "name": "apply_patch",
        "arguments": '{"input": "p"}',
    }
    assert codes(tolerated.notes) == [
        ("dropped_field", "a_field_of_next_year"),
        ("dropped_field", "client_metadata"),
        ("dropped_field", "include.web_search_call.results"),
        ("dropped_field", "truncation"),
        ("dropped_hosted_tool", "tools[2]"),
        ("mapped_custom_tool", "tools[1]"),
    ]


def test_a_choice_among_no_tools_is_no_choice() -> None:
    body = reduce_response_request(
        {"input": "Go.", "tools": [{"type": "web_search"}], "tool_choice": "required"}
    ).body
    assert "tools" not in build_chat_request(body).body


@pytest.mark.parametrize(
    "field", [{"previous_response_id": "r"}, {"background": True}, {"prompt": {"id": "p"}}]
)
def test_a_field_that_changes_the_meaning_stays_refused(field: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(field))):
        build_chat_request(reduce_response_request({"input": "Go.", **field}).body)


def test_a_message_request_of_a_coding_agent_is_read() -> None:
    with pytest.raises(InputError):
        convert_message_request(CLAUDE)
    tolerated = reduce_message_request(CLAUDE)
    params = convert_message_request(tolerated.body)
    assert params["instructions"] == "Work."
    assert [tool["name"] for tool in params["tools"]] == ["Bash"]
    assert codes(tolerated.notes) == [
        ("dropped_field", "context_management"),
        ("dropped_field", "inference_geo"),
        ("dropped_hosted_tool", "tools[1]"),
        ("dropped_nonce", "system"),
    ]


def test_an_answer_that_the_caller_has_begun_stays_refused() -> None:
    begun = {
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    }
    with pytest.raises(InputError, match="begun"):
        convert_message_request(reduce_message_request(begun).body)


@pytest.mark.parametrize("name", list(DROPPED_FROM_RESPONSES))
def test_each_listed_field_of_responses_is_dropped_with_its_reason(name: str) -> None:
    tolerated = reduce_response_request({"input": "Go.", name: "x"})
    assert tolerated.body == {"input": "Go."}
    assert [note.message for note in tolerated.notes] == [DROPPED_FROM_RESPONSES[name]]


@pytest.mark.parametrize("name", list(DROPPED_FROM_MESSAGES))
def test_each_listed_field_of_messages_is_dropped_with_its_reason(name: str) -> None:
    tolerated = reduce_message_request({"messages": [], name: "x"})
    assert tolerated.body == {"messages": []}
    assert [note.message for note in tolerated.notes] == [DROPPED_FROM_MESSAGES[name]]


def test_a_streaming_request_becomes_one_of_a_whole_answer() -> None:
    search = {"type": "function", "name": "search", "parameters": {"type": "object"}}
    body = {
        "input": "find it",
        "stream": True,
        "stream_options": {"include_usage": True},
        "client_metadata": {"x": "y"},
        "tools": [{"type": "namespace", "name": "docs", "tools": [search]}, {"type": "web_search"}],
    }
    cleaned, namespaces = sanitize_streaming_responses_body(body)
    assert cleaned == {"input": "find it", "tools": [search | {"name": "docs__search"}]}
    assert namespaces == {"docs__search": ("docs", "search")}
    assert body["stream"] is True
