"""Event streams of finished answers, in the three APIs of a model server.

A stream is made of the whole answer. While the engine works, comment lines keep the connection alive: proxies and
agents cut silent ones. Comments begin after `_QUIET_TICKS` ticks, because an error before them has a status of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from starlette.types import Send

from nemo_gym.failures import GymError
from nemo_gym.responses import sse_of_chat, sse_of_response
from nemo_gym.responses.messages_api import sse_of_message
from nemo_gym.serving.error_forms import anthropic_error
from nemo_gym.transport.whole_response import RawHeaders

EVENT_STREAM: RawHeaders = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]
COMMENT = b": the engine is working\n\n"
_QUIET_TICKS = 5


def sse_of(path: str, answer: dict[str, Any], options: object = None) -> Iterable[bytes]:
    """Return the events of an answer of the route `path`. `options` are a chat request's `stream_options`."""
    if path == "/v1/messages":
        return sse_of_message(answer)
    if path == "/v1/chat/completions":
        includes_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        return sse_of_chat(answer, include_usage=includes_usage)
    return sse_of_response(answer)


class EventStreamSender:
    """Sends the event stream of one request."""

    def __init__(self, path: str, options: object, send: Send) -> None:
        self._path = path
        self._options = options
        self._send = send
        self._ticks = 0
        self.has_begun = False
        """True after the status was sent."""

    async def tick(self) -> None:
        """Send a comment line, unless the stream is young."""
        self._ticks += 1
        if self._ticks >= _QUIET_TICKS:
            await self._write(COMMENT)

    async def finish(self, answer: dict[str, Any]) -> None:
        await self._write(b"".join(sse_of(self._path, answer, self._options)), is_last=True)

    async def fail(self, error: GymError) -> None:
        """Send an error as an event, because the status was sent before."""
        if self._path == "/v1/messages":
            event = b"event: error\ndata: " + orjson.dumps(anthropic_error(error.failure))
        elif self._path == "/v1/chat/completions":
            event = b"data: " + orjson.dumps(error.failure.to_wire())
        else:
            about = {"type": "error", **error.failure.to_wire()["error"]}
            event = b"event: error\ndata: " + orjson.dumps({**about, "type": "error"})
        await self._write(event + b"\n\n", is_last=True)

    async def _write(self, data: bytes, *, is_last: bool = False) -> None:
        if not self.has_begun:
            self.has_begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
        await self._send({"type": "http.response.body", "body": data, "more_body": not is_last})
