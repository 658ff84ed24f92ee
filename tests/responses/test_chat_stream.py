from collections.abc import Callable
from typing import Any

import orjson
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

from nemo_gym.responses import encode_chat_events
from nemo_gym.responses._chat_stream import chat_chunks

CALLS = [
    {"id": f"c{i}", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}} for i in (1, 2)
]
USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


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
        "usage": USAGE,
    }


def deltas_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chat_chunks(body) for choice in chunk["choices"]]


def test_the_chunks_of_an_answer() -> None:
    body = chat("tool_calls", content="Let me see.", reasoning="hm", tool_calls=CALLS[:1])
    assert deltas_of(body) == [
        {"role": "assistant", "content": ""},
        {"reasoning": "hm"},
        {"content": "Let me see."},
        {"tool_calls": [{**CALLS[0], "index": 0, "function": {"name": "add", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]},
        {},
    ]
    for chunk in chat_chunks(body):
        ChatCompletionChunk.model_validate(chunk)
    assert [chunk["choices"][0]["finish_reason"] for chunk in chat_chunks(body)][-2:] == [None, "tool_calls"]


def test_engine_fields_stay_where_engines_put_them() -> None:
    body = {**chat(content="yes"), "prompt_token_ids": [1, 2]}
    body["choices"][0] |= {"token_ids": [3], "logprobs": {"content": []}, "stop_reason": 7}
    chunks = list(chat_chunks(body))
    assert [chunk.get("prompt_token_ids") for chunk in chunks] == [[1, 2], None, None]
    assert [chunk["choices"][0].get("token_ids") for chunk in chunks] == [None, [3], None]
    assert [chunk["choices"][0].get("stop_reason") for chunk in chunks] == [None, None, 7]


def test_token_ids_of_an_empty_answer_are_not_lost() -> None:
    body = chat()
    body["choices"][0]["token_ids"] = [3]
    assert [chunk["choices"][0].get("token_ids") for chunk in chat_chunks(body)] == [None, [3], None]


def test_usage_comes_last_where_it_is_asked_for() -> None:
    assert all("usage" not in chunk for chunk in chat_chunks(chat(content="yes")))
    *earlier, last = chat_chunks(chat(content="yes"), include_usage=True)
    assert all(chunk["usage"] is None for chunk in earlier)
    assert (last["choices"], last["usage"]) == ([], USAGE)


def test_the_stream_ends_with_done() -> None:
    *chunks, done = encode_chat_events(chat(content="yes"))
    assert done == b"data: [DONE]\n\n"
    assert [orjson.loads(chunk.removeprefix(b"data: ")) for chunk in chunks] == list(
        chat_chunks(chat(content="yes"))
    )
    assert all(chunk.endswith(b"\n\n") for chunk in chunks)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("stop", {"content": "yes"}),
        ("stop", {"content": "yes", "reasoning": "hm", "reasoning_content": "hm"}),
        ("tool_calls", {"content": "Let me see.", "tool_calls": CALLS}),
        ("tool_calls", {"tool_calls": CALLS}),
        ("stop", {"refusal": "no"}),
    ],
)
def test_the_clients_accumulator_rebuilds_the_same_answer(
    client_of: Callable[[bytes], OpenAI], reason: str, message: dict[str, Any]
) -> None:
    client = client_of(b"".join(encode_chat_events(chat(reason, **message), include_usage=True)))
    with client.chat.completions.stream(
        model="policy",
        messages=[{"role": "user", "content": "hi"}],
        stream_options={"include_usage": True},
    ) as stream:
        final = stream.get_final_completion().model_dump(mode="json", exclude_none=True)
    rebuilt = final["choices"][0]["message"]
    for call in rebuilt.get("tool_calls") or ():
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    assert {key: rebuilt.get(key) or None for key in message} == message
    assert (final["choices"][0]["finish_reason"], final["usage"]) == (reason, USAGE)
