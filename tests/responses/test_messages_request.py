"""A request of Anthropic's Messages API as a Responses request."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.failures import InputError
from nemo_gym.responses.messages_request import convert_message_request, dump_arguments, parse_tool_input

USER = {"role": "user", "content": "hello"}


def params_of(**fields: Any) -> dict[str, Any]:
    return convert_message_request({"model": "claude", "max_tokens": 100, "messages": [USER], **fields})


def input_of_messages(*messages: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = params_of(messages=[*messages])["input"]
    return items


def test_a_plain_request() -> None:
    assert params_of(system="Be brief.", temperature=0.5, top_p=0.9, top_k=5, stop_sequences=["END"]) == {
        "model": "claude",
        "input": [{"type": "message", "role": "user", "content": "hello"}],
        "store": False,
        "instructions": "Be brief.",
        "max_output_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "stop": ["END"],
    }


def test_hints_that_change_no_answer_are_left_out() -> None:
    hint = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": "One.", **hint}, {"type": "text", "text": "Two."}]
    params = params_of(system=system, metadata={"user_id": "u"}, service_tier="auto", stream=True)
    assert params["instructions"] == "One.\n\nTwo."
    assert params.keys() == {"model", "input", "store", "instructions", "max_output_tokens"}


def test_a_conversation_with_thinking_and_tools_keeps_its_order() -> None:
    assistant = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Add them.", "signature": "sig"},
            {"type": "redacted_thinking", "data": "hidden"},
            {"type": "text", "text": "Let me "},
            {"type": "text", "text": "add."},
            {"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 1, "b": [2, "é"]}},
        ],
    }
    result = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "3"}]},
            {"type": "text", "text": "And now?"},
        ],
    }
    assert input_of_messages(USER, assistant, result) == [
        {"type": "message", "role": "user", "content": "hello"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Add them."}],
            "encrypted_content": "sig",
        },
        {"type": "reasoning", "summary": [], "encrypted_content": "hidden"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me "}, {"type": "output_text", "text": "add."}],
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "add",
            "arguments": '{"a": 1, "b": [2, "é"]}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "3"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
    ]


def test_text_before_and_after_the_output_of_a_tool_stays_there() -> None:
    blocks = [
        {"type": "text", "text": "before"},
        {"type": "tool_result", "tool_use_id": "c", "content": "3"},
        {"type": "text", "text": "after"},
    ]
    kinds = [
        (item["type"], item.get("content")) for item in input_of_messages({"role": "user", "content": blocks})
    ]
    assert kinds == [
        ("message", [{"type": "input_text", "text": "before"}]),
        ("function_call_output", None),
        ("message", [{"type": "input_text", "text": "after"}]),
    ]


@pytest.mark.parametrize(
    ("content", "is_error", "output"),
    [
        (None, False, ""),
        ("3", False, "3"),
        ("no such file", True, "Error: no such file"),
        (
            [{"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}],
            True,
            [
                {"type": "input_text", "text": "Error: "},
                {"type": "input_image", "image_url": "http://x/y.png", "detail": "auto"},
            ],
        ),
    ],
)
def test_outputs_of_tools(content: Any, is_error: bool, output: Any) -> None:
    block = {"type": "tool_result", "tool_use_id": "c", "content": content, "is_error": is_error}
    assert input_of_messages({"role": "user", "content": [block]})[0]["output"] == output


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
            {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"},
        ),
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
            {"type": "input_text", "text": "words"},
        ),
        (
            {
                "type": "document",
                "title": "a.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
            },
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "http://x/a.pdf"}},
            {"type": "input_file", "file_url": "http://x/a.pdf"},
        ),
    ],
)
def test_images_and_documents(block: Any, part: Any) -> None:
    (item,) = input_of_messages({"role": "user", "content": [{"type": "text", "text": "see"}, block]})
    assert item["content"] == [{"type": "input_text", "text": "see"}, part]


def test_tools_and_the_choice_among_them() -> None:
    schema = {"type": "object", "properties": {}}
    tools = [{"name": "add", "description": "Adds.", "input_schema": schema}]
    params = params_of(tools=tools, tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert params["tools"] == [
        {"type": "function", "name": "add", "description": "Adds.", "parameters": schema, "strict": False}
    ]
    assert params["tool_choice"] == "required"
    assert params["parallel_tool_calls"] is False
    assert params_of(tools=tools, tool_choice={"type": "none"})["tool_choice"] == "none"
    named = params_of(tools=tools, tool_choice={"type": "tool", "name": "add"})["tool_choice"]
    assert named == {"type": "function", "name": "add"}


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 10_000}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 32_000}}, "high"),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}, "output_config": {"effort": "max"}}, "max"),
        ({"output_config": {"effort": "max"}, "thinking": {"type": "enabled", "budget_tokens": 1024}}, "max"),
    ],
)
def test_thinking_is_an_effort(fields: dict[str, Any], effort: str | None) -> None:
    reasoning = params_of(**fields).get("reasoning")
    assert reasoning == (None if effort is None else {"effort": effort})


@pytest.mark.parametrize(
    "fields",
    [
        {"output_format": {"type": "json_schema", "schema": {"type": "object"}}},
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    ],
)
def test_a_schema_of_the_answer(fields: dict[str, Any]) -> None:
    assert params_of(**fields)["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": True}
    }


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [USER, {"role": "assistant", "content": "The answer is"}]}, "messages[1]"),
        ({"messages": [{"role": "tool", "content": "x"}, USER]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0].type"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]},
            "messages[0].content[0].source.type",
        ),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"name": "add", "input_schema": {}, "surprise": 1}]}, "tools[0].surprise"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"thinking": {"type": "hard"}}, "thinking.type"),
        ({"mcp_servers": [{}]}, "mcp_servers"),
        ({"context_management": {"edits": [{"type": "clear_tool_uses"}]}}, "context_management.edits"),
        ({"system": [{"type": "image"}]}, "system[0]"),
    ],
)
def test_what_cannot_be_said_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InputError) as raised:
        params_of(**fields)
    assert raised.value.failure.param == param


@given(st.text(max_size=30) | st.dictionaries(st.text(max_size=3), st.integers(), max_size=3).map(json.dumps))
def test_arguments_mean_the_same_after_a_round_trip(arguments: str) -> None:
    returned = dump_arguments(parse_tool_input(arguments))
    try:
        meant = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        meant = None
    if isinstance(meant, dict):
        assert orjson.loads(returned) == meant
    else:
        assert returned == arguments
