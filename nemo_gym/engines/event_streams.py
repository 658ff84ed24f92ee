"""Event streams (`stream: true`) in the three APIs of a model server, made of whole answers.

The handlers of a model server answer as a whole. While the engine works, comment lines keep the connection alive:
proxies and agents cut silent ones. Comments begin after `_QUIET_TICKS` ticks, because an error before them has a status
of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.engines.record.call import DIALECTS
from nemo_gym.failures import EngineError, GymError, InputError, build_error
from nemo_gym.responses import encode_chat_events, encode_response_events
from nemo_gym.responses.messages_api import encode_message_events
from nemo_gym.serving.error_forms import anthropic_error
from nemo_gym.serving.routes import parse_object
from nemo_gym.transport import read_reply_failure
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.memory import collect_reply
from nemo_gym.transport.request_body import WholeBody
from nemo_gym.transport.whole_response import RawHeaders, send_reply

EVENT_STREAM: RawHeaders = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]
_STREAM_FIELDS = frozenset({"stream", "stream_options"})
COMMENT = b": the engine is working\n\n"
TICK_S = 2.0
"""Seconds between two comment lines."""
_QUIET_TICKS = 5


def encode_events(path: str, answer: dict[str, Any], options: object = None) -> Iterable[bytes]:
    """Return the events of an answer of the route `path`. `options` are a chat request's `stream_options`."""
    if path == "/v1/messages":
        return encode_message_events(answer)
    if path == "/v1/chat/completions":
        includes_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        return encode_chat_events(answer, include_usage=includes_usage)
    return encode_response_events(answer)


class EventStreams:
    """The layer of a model server (`GymApp.layers`) that answers requests with `stream: true`.

    The handler gets the request without its fields about streams.
    """

    def __init__(self, *, parses: bool = False) -> None:
        """`parses`: the app's handlers read JSON objects, so that one parsed here saves a search of the body."""
        self.tick_s = TICK_S
        self._parses = parses

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path not in DIALECTS or not isinstance(receive, WholeBody) or not self._may_stream(receive):
            await handler(scope, receive, send)
            return
        asked = dict(receive.value) if receive.value is not None else parse_object(receive.body)
        streams, options = asked.pop("stream", None), asked.pop("stream_options", None)
        whole = WholeBody(orjson.dumps(asked), receive, asked)
        if not streams:
            await handler(scope, whole, send)
            return
        sender = EventStreamSender(path, options, send)
        try:
            reply = await self._run(collect_reply(handler, scope, whole), sender)
        except GymError as error:
            if not sender.has_begun:
                raise
            await sender.fail(error)
            return
        await sender.answer(reply)

    def _may_stream(self, receive: WholeBody) -> bool:
        if not self._parses:
            return b'"stream' in receive.body
        if receive.value is None:
            try:
                receive.value = parse_object(receive.body)
            except InputError:
                return False  # the handler answers that
        return not _STREAM_FIELDS.isdisjoint(receive.value)

    async def _run(self, answering: Coroutine[Any, Any, Reply], sender: EventStreamSender) -> Reply:
        task = asyncio.create_task(answering)
        try:
            while not (await asyncio.wait({task}, timeout=self.tick_s))[0]:
                await sender.tick()
        finally:
            task.cancel()  # the client has left; no effect on a handler that is done
        return task.result()


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

    async def answer(self, reply: Reply) -> None:
        """Send the events of a handler's answer; its error as it is, or as an event."""
        if reply.status == HTTPStatus.OK:
            await self.finish(orjson.loads(reply.body))
        elif self.has_begun:
            failure = read_reply_failure(reply)
            refused = EngineError(f"the call was refused with HTTP {reply.status}", code="call_refused")
            await self.fail(build_error(failure) if failure is not None else refused)
        else:
            await send_reply(self._send, reply)

    async def finish(self, answer: dict[str, Any]) -> None:
        await self._write(b"".join(encode_events(self._path, answer, self._options)), is_last=True)

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
