"""Event streams of finished answers, in the three APIs of a model server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemo_gym.responses import sse_of_chat, sse_of_response
from nemo_gym.responses.messages_api import sse_of_message
from nemo_gym.transport.whole_response import RawHeaders

EVENT_STREAM: RawHeaders = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]


def sse_of(path: str, answer: dict[str, Any], options: object = None) -> Iterable[bytes]:
    """Return the events of an answer of the route `path`. `options` are a chat request's `stream_options`."""
    if path == "/v1/messages":
        return sse_of_message(answer)
    if path == "/v1/chat/completions":
        includes_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        return sse_of_chat(answer, include_usage=includes_usage)
    return sse_of_response(answer)
