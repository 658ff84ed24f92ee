from collections.abc import Callable
from typing import Any

import orjson
import pytest
from openai import OpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from nemo_gym.responses import convert_chat_to_response, encode_response_events
from nemo_gym.responses._responses_stream import response_events

Ids = Callable[[str], str]
Clients = Callable[[bytes], OpenAI]

CITATION = {"type": "url_citation", "url": "https://x", "title": "x", "start_index": 0, "end_index": 3}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
ENTRY = {"token": "yes", "logprob": -0.5, "bytes": [121, 101, 115], "top_logprobs": []}

_event: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def response_from(ids: Ids, reason: str = "stop", **message: Any) -> dict[str, Any]:
    chat = {
        "model": "policy",
        "choices": [{"message": message, "finish_reason": reason, "logprobs": {"content": [ENTRY]}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
    }
    params = {
        "tools": [{"type": "function", "name": "add", "parameters": {}, "strict": False}],
        "logprobs": True,
    }
    return convert_chat_to_response(chat, params, ids=ids, now=5).response


MESSAGES: list[tuple[str, dict[str, Any]]] = [
    ("stop", {"content": "yes"}),
    ("stop", {"content": ""}),
    ("stop", {"content": "yes", "reasoning": "hm"}),
    ("stop", {"content": "<think>a</think><think>b</think>yes"}),
    ("stop", {"refusal": "no"}),
    ("stop", {"content": "yes", "annotations": [{"type": "url_citation", "url_citation": CITATION}]}),
    ("tool_calls", {"content": "Let me see.", "reasoning": "hm", "tool_calls": [CALL, {**CALL, "id": "c2"}]}),
    ("tool_calls", {"tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": ""}}]}),
    ("length", {"content": "cut o"}),
    ("length", {"content": "<think>cut o"}),
]
every_message = pytest.mark.parametrize(("reason", "message"), MESSAGES)


@every_message
def test_every_event_is_one_of_the_api(ids: Ids, reason: str, message: dict[str, Any]) -> None:
    response = response_from(ids, reason, **message)
    events = list(response_events(response))
    for event in events:
        _event.validate_python(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[0]["response"]["output"] == []
    assert events[-1]["type"] == f"response.{response['status']}"
    assert events[-1]["response"] == response


def test_the_order_of_events(ids: Ids) -> None:
    response = response_from(ids, "tool_calls", content="yes", reasoning="hm", tool_calls=[CALL])
    assert [event["type"].removeprefix("response.") for event in response_events(response)] == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


def without_parsed(response: Response) -> dict[str, Any]:
    """What the client got, without the fields that its parsing adds."""
    dumped = response.model_dump(mode="json", exclude_unset=True)
    for item in dumped["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content") or ():
            part.pop("parsed", None)
    return dumped


@every_message
def test_the_client_rebuilds_the_same_response(
    ids: Ids, client_of: Clients, reason: str, message: dict[str, Any]
) -> None:
    response = response_from(ids, reason, **message)
    client = client_of(b"".join(encode_response_events(response)))
    with client.responses.create(model="policy", input="hi", stream=True) as stream:
        *_, last = stream
    assert last.type in ("response.completed", "response.incomplete")
    assert without_parsed(last.response) == response


@pytest.mark.parametrize(("reason", "message"), [case for case in MESSAGES if case[0] != "length"])
def test_the_clients_accumulator_agrees(
    ids: Ids, client_of: Clients, reason: str, message: dict[str, Any]
) -> None:
    response = response_from(ids, reason, **message)
    client = client_of(b"".join(encode_response_events(response)))
    with client.responses.stream(model="policy", input="hi") as stream:
        texts = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert without_parsed(final) == response
    assert texts == final.output_text


def test_items_that_no_model_writes_come_in_one_piece() -> None:
    item = {"type": "function_call_output", "id": "o1", "call_id": "c1", "output": "3"}
    events = list(response_events({"id": "r", "status": "completed", "output": [item]}))
    assert [event["item"] for event in events[2:-1]] == [item, item]


def test_an_event_is_framed_by_its_type() -> None:
    first = next(iter(encode_response_events({"id": "r", "status": "completed", "output": []})))
    name, data, *rest = first.split(b"\n")
    assert name == b"event: response.created"
    assert orjson.loads(data.removeprefix(b"data: "))["sequence_number"] == 0
    assert rest == [b"", b""]


def test_a_failure_ends_the_stream_with_its_message(ids: Ids) -> None:
    error = {"code": "server_error", "message": "The engine went away."}
    response = {**response_from(ids, content="no"), "status": "failed", "output": [], "error": error}
    Response.model_validate(response)
    *_, last = response_events(response)
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == error
