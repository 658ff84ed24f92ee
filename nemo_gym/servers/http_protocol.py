"""HTTP/1.1 for the plain routes of a gym's app: a whole request in, a whole answer out, and little between.

A connection begins here. The first request on it that needs more than that (a route that is FastAPI's, an upgrade, a
`Expect: 100-continue`, something that is not HTTP/1.1) is handed over to uvicorn together with the connection, and
stays there. An answer that a plain route sends bit by bit goes out in chunks from here.

Requests that a client sends before it has the answer to the one before are not read: the connection ends with that
answer, as RFC 9112 (9.3.2) has clients expect.
"""

from __future__ import annotations

import asyncio
import http
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any, Protocol, cast
from urllib.parse import unquote

import httptools
import uvicorn
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from nemo_gym.servers.inbound import Handle, Inbound, JsonAnswer

_JSON_HEAD = b"%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_WITHOUT_BODY = frozenset({204, 304})
_LENGTH = b"content-length"
_COPIED_BODY_BYTES = 1 << 16
"""A body up to this size leaves in one piece with its head."""


class PlainApp(Protocol):
    """What the protocol asks of an app, which also speaks ASGI for what it hands over."""

    answer: Callable[[Inbound, Handle], Awaitable[Response | None]]
    """The answer to a request; None where it went out by `Inbound.send`."""

    def handler_of(self, method: str, path: str) -> Handle | None:
        """What answers a plain route; None for what needs ASGI."""

    def is_watched(self, path: str) -> bool:
        """Whether the handler is cancelled when the caller goes away."""


def protocol_of(app: Any) -> type[asyncio.Protocol]:
    """The protocol that serves an app: this one where it is a gym's."""
    return GymProtocol if getattr(app, "answers_calls", False) else HttpToolsProtocol


class GymProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._made_of = (config, server_state, app_state)
        self._loop = _loop or asyncio.get_running_loop()
        self._app = cast(PlainApp, config.loaded_app)
        self._state = server_state
        self._keepalive_s = config.timeout_keep_alive
        self._parser = httptools.HttpRequestParser(self)
        self.transport: asyncio.Transport
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._writable: asyncio.Future[None] | None = None
        """Made while the other side reads more slowly than we write."""

        self._unread: list[bytes] = []
        """What has arrived of a request that may still be uvicorn's."""
        self._is_uvicorns = False
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._target: tuple[str, str, str, dict[str, str]] = ("", "", "", {})
        """The method, the path, the query and the headers of the request."""
        self._handle: Handle | None = None
        """What answers it, once that is known."""
        self._answering: asyncio.Task[None] | None = None
        self._is_last = False
        """Whether the connection ends with the answer."""
        self._is_chunked: bool | None = None
        """How an answer that goes out bit by bit is sent, once it has begun."""
        self._is_answered = False
        self._early: list[bytes] = []
        """What has arrived of the next request while the handler of the last was still tidying up."""

    # --- What the event loop tells ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by class
        self._state.connections.add(self)  # type: ignore[arg-type]
        self._idle_since = self._loop.time()
        self._idle_timer = self._loop.call_later(self._keepalive_s, self._end_if_idle)

    def data_received(self, data: bytes) -> None:
        if self._answering is not None:
            if self._is_answered:
                self._early.append(data)
            else:
                self._is_last = True
            return
        self._idle_since = self._loop.time()
        if self._handle is None:
            self._unread.append(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if self._handle is not None:  # its body is broken
                self.transport.abort()
                return
            self._is_uvicorns = True
        if self._is_uvicorns:
            self._hand_over()

    def connection_lost(self, error: Exception | None) -> None:
        self._leave()
        if not self._lost.done():
            self._lost.set_result(None)
        self.resume_writing()
        is_watched = self._is_chunked is not None or self._app.is_watched(self._target[1])
        if self._answering is not None and is_watched and not self._is_answered:
            self._answering.cancel()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def shutdown(self) -> None:
        """The server stops: uvicorn asks its connections to end."""
        self._is_last = True
        if self._answering is None:
            self.transport.close()

    def _end_if_idle(self) -> None:
        idle_s = self._loop.time() - self._idle_since if self._answering is None else 0.0
        if idle_s >= self._keepalive_s:
            self.transport.close()
        else:
            self._idle_timer = self._loop.call_later(self._keepalive_s - idle_s, self._end_if_idle)

    def _leave(self) -> None:
        self._state.connections.discard(self)
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    def _hand_over(self) -> None:
        self._leave()
        protocol = HttpToolsProtocol(*self._made_of, self._loop)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(b"".join(self._unread))

    # --- What the parser tells ----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._answering is None:
            self._url, self._headers, self._body = b"", [], []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._answering is not None:
            self._is_last = True
            return
        parser = self._parser
        path, _, query = self._url.decode("latin-1").partition("?")
        if "%" in path:
            path = unquote(path)
        method = parser.get_method().decode("ascii")
        headers = _read_headers(self._headers)
        handle = self._app.handler_of(method, path)
        is_plain = method != "HEAD" and parser.get_http_version() == "1.1" and not parser.should_upgrade()
        if handle is None or not is_plain or "expect" in headers:
            self._is_uvicorns = True
            return
        self._handle = handle
        self._target = method, path, query, headers
        self._unread.clear()

    def on_body(self, body: bytes) -> None:
        if self._answering is None and not self._is_uvicorns:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._answering is not None or self._handle is None:
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if not self._parser.should_keep_alive():
            self._is_last = True
        inbound = Inbound(*self._target, body, self, self._app)
        self._body = []
        self._answering = self._loop.create_task(self._answer(inbound, self._handle))
        self._state.tasks.add(self._answering)

    # --- The answer ---------------------------------------------------------------------------------------------

    async def _answer(self, inbound: Inbound, handle: Handle) -> None:
        try:
            answer = await self._app.answer(inbound, handle)
            if answer is not None:
                self._send_whole(answer)
        finally:
            assert self._answering is not None
            self._state.tasks.discard(self._answering)
            is_answered = self._is_answered
            self._answering = self._handle = self._is_chunked = None
            self._is_answered = False
            self._idle_since = self._loop.time()
            if not is_answered:
                self.transport.abort()  # half an answer, or none: that must show
            elif self._is_last:
                self.transport.close()
            elif self._early:
                early = b"".join(self._early)
                self._early.clear()
                self.data_received(early)

    def _send_whole(self, answer: Response) -> None:
        body, headers = bytes(answer.body), answer.raw_headers
        status = answer.status_code
        if type(answer) is JsonAnswer and len(headers) == 2 and not self._is_last:  # nearly all
            head = _JSON_HEAD % (_status_line(status), len(body))
        else:
            if status not in _WITHOUT_BODY and not any(name == _LENGTH for name, _ in headers):
                headers = [*headers, (_LENGTH, b"%d" % len(body))]
            head = self._head(status, headers)
        if len(body) <= _COPIED_BODY_BYTES:
            self.transport.write(head + body)
        else:
            self.transport.writelines([head, body])
        self._is_answered = True

    def _head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """An answer's head. Raises ValueError for a header that would say more than it should."""
        if self._is_last:
            headers = [*headers, (b"connection", b"close")]
        lines = [b"%b: %b\r\n" % header for header in headers]
        head = b"".join([_status_line(status), *lines, b"\r\n"])
        if head.count(b"\n") != len(lines) + 2 or head.count(b"\r") != len(lines) + 2:
            raise ValueError(f"a header of the answer to {' '.join(self._target[:2])} holds a line break")
        return head

    # --- The carrier of answers that go out bit by bit ----------------------------------------------------------

    async def receive(self) -> MutableMapping[str, Any]:
        await asyncio.shield(self._lost)
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._lost.done():
            return
        if message["type"] == "http.response.start":
            headers = [(name.lower(), value) for name, value in message["headers"]]
            self._is_chunked = not any(name == _LENGTH for name, _ in headers)
            if self._is_chunked:
                headers.append((b"transfer-encoding", b"chunked"))
            self.transport.write(self._head(message["status"], headers))
            return
        body, is_end = message.get("body", b""), not message.get("more_body", False)
        if self._is_chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"0\r\n\r\n" if is_end else b"")
        self.transport.write(body)
        self._is_answered = is_end
        if self._writable is not None:
            await self._writable


@lru_cache(maxsize=100)
def _status_line(status: int) -> bytes:
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


@lru_cache(maxsize=500)
def _name_of(header: bytes) -> str:
    return header.decode("latin-1").lower()


def _read_headers(given: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers with their names in lower case; those that were given twice are joined, as HTTP reads them."""
    headers = {_name_of(name): value.decode("latin-1") for name, value in given}
    if len(headers) < len(given):
        headers = {}
        for name, value in given:
            key, text = _name_of(name), value.decode("latin-1")
            glue = "; " if key == "cookie" else ", "
            headers[key] = f"{headers[key]}{glue}{text}" if key in headers else text
    return headers
