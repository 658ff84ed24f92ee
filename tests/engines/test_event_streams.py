from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from nemo_gym.engines.event_streams import COMMENT, EventStreams, EventStreamSender, encode_events
from nemo_gym.failures import EngineError
from nemo_gym.transport.request_body import WholeBody
from nemo_gym.transport.whole_response import send_response
from tests.waiting import until

CHAT = {
    "id": "c",
    "model": "m",
    "created": 0,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
RESPONSE = {
    "id": "r",
    "object": "response",
    "status": "completed",
    "output": [],
    "model": "m",
    "created_at": 0,
}
MESSAGE: dict[str, object] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


@pytest.mark.parametrize(
    ("path", "answer", "last"),
    [
        ("/v1/chat/completions", CHAT, b"data: [DONE]\n\n"),
        ("/v1/responses", RESPONSE, b"response.completed"),
        ("/v1/messages", MESSAGE, b"message_stop"),
    ],
)
def test_each_api_has_its_last_event(path: str, answer: dict[str, object], last: bytes) -> None:
    assert last in list(encode_events(path, answer))[-1]


def test_a_chat_stream_has_usage_if_it_was_asked_for() -> None:
    asked = b"".join(encode_events("/v1/chat/completions", CHAT, {"include_usage": True}))
    assert asked.count(b'"usage":{') == 1
    assert b'"usage":{' not in b"".join(encode_events("/v1/chat/completions", CHAT))


class Sent:
    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def __call__(self, message: Any) -> None:
        self.messages.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


async def test_comments_begin_after_some_ticks() -> None:
    sent = Sent()
    sender = EventStreamSender("/v1/messages", None, sent)
    for _ in range(4):
        await sender.tick()
    assert not sender.has_begun
    for _ in range(2):
        await sender.tick()
    assert sent.body == COMMENT * 2
    await sender.finish(dict(MESSAGE))
    assert b"message_stop" in sent.body
    assert not sent.messages[-1]["more_body"]


@pytest.mark.parametrize(
    ("path", "event"),
    [
        ("/v1/messages", b'event: error\ndata: {"type":"error","error":{"message":"no"'),
        ("/v1/responses", b'event: error\ndata: {"type":"error","message":"no"'),
        ("/v1/chat/completions", b'data: {"error":{"message":"no"'),
    ],
)
async def test_an_error_after_the_beginning_is_an_event(path: str, event: bytes) -> None:
    sent = Sent()
    await EventStreamSender(path, None, sent).fail(EngineError("no", code="x"))
    assert sent.body.startswith(event)
    assert sent.body.endswith(b"\n\n")


class SlowHandler:
    """Answers when `finish` is set."""

    def __init__(self, status: int, answer: dict[str, Any]) -> None:
        self.finish = asyncio.Event()
        self.body: WholeBody | None = None
        self._status = status
        self._answer = orjson.dumps(answer)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.body = receive
        await self.finish.wait()
        await send_response(send, self._status, [(b"content-type", b"application/json")], self._answer)


async def streamed(handler: SlowHandler, sent: Sent, *, comments: bool) -> None:
    layer = EventStreams()
    layer.tick_s = 0.001
    body = WholeBody(orjson.dumps({"model": "m", "stream": True, "stream_options": {}}), asyncio.Event().wait)  # type: ignore[arg-type]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
    call = asyncio.ensure_future(layer(handler, scope, body, sent))
    if comments:
        await until(lambda: COMMENT * 3 in sent.body)
    handler.finish.set()
    await call


async def test_a_silent_stream_has_comments_and_the_handler_no_stream() -> None:
    handler, sent = SlowHandler(200, CHAT), Sent()
    await streamed(handler, sent, comments=True)
    assert handler.body is not None
    assert orjson.loads(handler.body.body) == handler.body.value == {"model": "m"}
    assert sent.body.startswith(COMMENT)
    assert sent.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    "answer", [EngineError("no", code="x").failure.to_wire(), {"detail": "no envelope of the gym"}]
)
async def test_a_refusal_is_a_response_before_the_first_comment_and_then_an_event(
    answer: dict[str, Any],
) -> None:
    early, late = Sent(), Sent()
    await streamed(SlowHandler(422, answer), early, comments=False)
    assert (early.messages[0]["status"], early.body) == (422, orjson.dumps(answer))
    await streamed(SlowHandler(422, answer), late, comments=True)
    assert late.messages[0]["status"] == 200
    assert b'data: {"error":{"message":' in late.body
