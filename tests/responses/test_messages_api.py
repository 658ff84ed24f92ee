"""Anthropic's Messages API: answers and events in the format of its clients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nemo_gym.failures import EngineError
from nemo_gym.responses.messages_api import convert_response_to_message, encode_message_events, message_events
from nemo_gym.responses.messages_request import convert_message_request
from nemo_gym.responses.responses_answer import convert_chat_to_response

USER = {"role": "user", "content": "hello"}


# --- Answer -----------------------------------------------------------------------------------------------------


def response(*output: Any, **fields: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7,
        "total_tokens": 17,
    }
    return {
        "id": "resp_1",
        "model": "m",
        "status": "completed",
        "output": list(output),
        "usage": usage,
        **fields,
    }


REASONING = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Add."}]}
TEXT = {"type": "message", "content": [{"type": "output_text", "text": "Let me add."}]}
CALL = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'}


def test_an_answer_with_thinking_text_and_a_call() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
    message = convert_response_to_message(response(REASONING, TEXT, {**CALL, **tokens}))
    assert message == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "Add.", "signature": ""},
            {"type": "text", "text": "Let me add."},
            {"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 6,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
            "output_tokens": 7,
        },
        **tokens,
    }


@pytest.mark.parametrize(
    ("answer", "stop_reason"),
    [
        (response(TEXT), "end_turn"),
        (response(TEXT, CALL), "tool_use"),
        (
            response(TEXT, CALL, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "max_tokens",
        ),
        (response(TEXT, status="incomplete", incomplete_details={"reason": "content_filter"}), "refusal"),
        (response({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}), "refusal"),
    ],
)
def test_why_it_stopped(answer: dict[str, Any], stop_reason: str) -> None:
    assert convert_response_to_message(answer)["stop_reason"] == stop_reason


def test_the_stop_sequence_that_ended_it_is_reported() -> None:
    choice: dict[str, Any] = {"message": {"content": "1, 2"}, "finish_reason": "stop", "stop_reason": "3"}
    chat = {"choices": [choice]}
    answer = convert_chat_to_response(chat, {"input": "Count."}, ids="{}_1".format, now=0.0).response
    message = convert_response_to_message(answer)
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "3")
    *_, ending, _ = message_events(message)
    assert ending["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "3"}
    choice["stop_reason"] = 151645  # the token that ends every turn
    message = convert_response_to_message(
        convert_chat_to_response(chat, {}, ids="{}_1".format, now=0.0).response
    )
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)


def test_encrypted_reasoning_comes_back_as_it_went() -> None:
    encrypted = {"type": "reasoning", "summary": [], "encrypted_content": "abc"}
    signed = {**REASONING, "encrypted_content": "abc"}
    message = convert_response_to_message(response(encrypted, signed, TEXT))
    assert message["content"][0] == {"type": "redacted_thinking", "data": "abc"}
    assert message["content"][1] == {"type": "thinking", "thinking": "Add.", "signature": "abc"}
    turn = {"role": "assistant", "content": message["content"]}
    body = {"model": "m", "max_tokens": 100, "messages": [USER, turn, USER]}
    assert convert_message_request(body)["input"][1:3] == [encrypted, signed]


def test_an_item_that_no_message_can_hold_is_the_engine_s_failure() -> None:
    with pytest.raises(EngineError, match="web_search_call"):
        convert_response_to_message(response({"type": "web_search_call"}))


# --- Stream -----------------------------------------------------------------------------------------------------


def rebuilt(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a client makes of `events`."""
    message: dict[str, Any] = dict(events[0]["message"])
    message["content"] = []
    partial = ""
    for event in events[1:]:
        if event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(dict(event["content_block"]))
            partial = ""
        elif event["type"] == "content_block_delta":
            block, delta = message["content"][event["index"]], event["delta"]
            field = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
            if delta["type"] == "input_json_delta":
                partial += delta["partial_json"]
                block["input"] = json.loads(partial)
            else:
                block[field[delta["type"]]] += delta[field[delta["type"]]]
        elif event["type"] == "message_delta":
            message |= event["delta"]
            message["usage"] = event["usage"]
    return message


@pytest.mark.parametrize(
    "answer",
    [
        response(REASONING, TEXT, CALL),
        response(TEXT),
        response({"type": "message", "content": [{"type": "output_text", "text": ""}]}),
        response({"type": "reasoning", "summary": [], "encrypted_content": "abc"}, TEXT),
        response({**CALL, "arguments": "{broken"}),
    ],
)
def test_the_events_make_the_message(answer: dict[str, Any]) -> None:
    message = convert_response_to_message(answer)
    events = list(message_events(message))
    assert rebuilt(events) == message
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    opening = events[0]["message"]
    assert (opening["content"], opening["stop_reason"], opening["usage"]["output_tokens"]) == ([], None, 0)


def test_events_are_named_by_their_type() -> None:
    for event in encode_message_events(convert_response_to_message(response(TEXT))):
        name, data, *_ = event.decode().split("\n")
        assert name == f"event: {json.loads(data.removeprefix('data: '))['type']}"
