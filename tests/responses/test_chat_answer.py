from collections.abc import Callable
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from nemo_gym.failures import EngineError
from nemo_gym.responses import convert_chat_to_response, convert_response_to_chat

Ids = Callable[[str], str]


def chat(reason: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 5,
        "model": "policy",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, **message},
                "finish_reason": reason,
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
    }


CALLS = [
    {"id": f"c{i}", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}} for i in (1, 2)
]
CITATION = {"url": "https://x", "title": "x", "start_index": 0, "end_index": 3}


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("stop", {"content": "yes"}),
        ("stop", {"content": "yes", "reasoning": "hm", "reasoning_content": "hm"}),
        ("tool_calls", {"content": "Let me see.", "tool_calls": CALLS}),
        ("tool_calls", {"tool_calls": CALLS, "reasoning": "hm", "reasoning_content": "hm"}),
        ("stop", {"refusal": "no"}),
        ("length", {"content": "cut o"}),
        ("content_filter", {"content": "cut o"}),
        ("stop", {"content": "yes", "annotations": [{"type": "url_citation", "url_citation": CITATION}]}),
    ],
)
def test_an_answer_survives_there_and_back(ids: Ids, reason: str, message: dict[str, Any]) -> None:
    given = chat(reason, **message)
    back = convert_response_to_chat(convert_chat_to_response(given, {}, ids=ids, now=5).response)
    ChatCompletion.model_validate(back)
    choice = back["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": None, **message}
    assert choice["finish_reason"] == reason
    assert (back["created"], back["model"]) == (5, "policy")
    assert {key: back["usage"][key] for key in given["usage"]} == given["usage"]


def test_logprobs_survive_there_and_back(ids: Ids) -> None:
    entries = [{"token": "yes", "logprob": -0.5, "bytes": [121, 101, 115], "top_logprobs": []}]
    given = chat(content="yes")
    given["choices"][0]["logprobs"] = {"content": entries}
    back = convert_response_to_chat(
        convert_chat_to_response(given, {"logprobs": True}, ids=ids, now=5).response
    )
    assert back["choices"][0]["logprobs"] == {"content": entries}


def test_texts_and_reasoning_are_joined() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": text} for text in ("x", "y")]},
        {"type": "message", "role": "assistant", "content": parts},
        {"type": "message", "role": "assistant", "content": parts},
    ]
    message = convert_response_to_chat({"output": output, "status": "completed"})["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == ("abab", "x\n\ny")


def test_token_fields_are_on_the_message() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    message = convert_response_to_chat({"output": [{**call, **tokens}]})["choices"][0]["message"]
    assert {key: message[key] for key in tokens} == tokens


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "boom"}}, "engine_error"),
        ({"status": "failed"}, "engine_error"),
        ({"status": "in_progress"}, "malformed_answer"),
        ({"status": "completed", "output": [{"type": "web_search_call"}]}, "malformed_answer"),
    ],
)
def test_what_chat_cannot_say_is_an_error(response: dict[str, Any], code: str) -> None:
    with pytest.raises(EngineError) as caught:
        convert_response_to_chat(response)
    assert caught.value.failure.code == code
