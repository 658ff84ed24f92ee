from __future__ import annotations

import pytest

from nemo_gym.engines.event_streams import sse_of

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
