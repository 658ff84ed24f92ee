from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.engines.event_streams import COMMENT, EventStreamSender, sse_of
from nemo_gym.failures import EngineError

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
    assert last in list(sse_of(path, answer))[-1]


def test_a_chat_stream_has_usage_if_it_was_asked_for() -> None:
    asked = b"".join(sse_of("/v1/chat/completions", CHAT, {"include_usage": True}))
    assert asked.count(b'"usage":{') == 1
    assert b'"usage":{' not in b"".join(sse_of("/v1/chat/completions", CHAT))


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
