"""Connections of clients: uvicorn's HTTP protocol, with bounds on what is read before a request is admitted.

A head has at most `MAX_HEAD_BYTES` and `MAX_HEADERS`, and must be complete within `HEAD_S`. At most `MAX_PART_HEADS`
connections of a listener hold a part of one. Requests behind an unanswered one wait (`pipelining`). A response to a
request whose body was not read is the last of its connection, which closes when the client had time to read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from nemo_gym.failures import InputError
from nemo_gym.serving.pipelining import (
    BLANK_LINE,
    MAX_HELD_BYTES,
    HeldFlow,
    HeldTotal,
    Unparsed,
    find_piece_end,
)
from nemo_gym.transport.whole_response import STATUSES_WITHOUT_BODY, RawHeaders, send_messages

MAX_HEAD_BYTES = 64 << 10
"""The longest head of a request: its line and its headers."""
MAX_URL_BYTES = MAX_HEAD_BYTES // 2
MAX_HEADERS = 256
HEAD_S = 20.0
"""Seconds in which a head must be complete; a connection without one is closed after half to all of them."""
MAX_PART_HEADS = 512
"""Connections of a listener that may hold a part of a head; the oldest makes room for another."""
LINGER_S = 5.0
"""Seconds in which a client can read a response although its request is not read. Closing at once would reset the
connection, and the client would lose the response."""

_OWN_WRITE_BYTES = 1 << 16
"""A larger body is written apart from its head, because joining them would copy it."""
_UVICORN_ONLY = frozenset({b"connection", b"transfer-encoding", b"content-length"})


def wrap_for_whole_responses(app: ASGIApp) -> ASGIApp:
    """Wrap `app` for uvicorn, so that it can send a complete response in one call (`whole_response`)."""

    def serve(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        cycle = getattr(send, "__self__", None)
        return app(scope, receive, UvicornSend(cycle) if isinstance(cycle, RequestResponseCycle) else send)

    return serve


class UvicornSend:
    """uvicorn's `send` for one request, with the methods `whole`, `take_body` and `on_disconnect`.

    uvicorn writes the head and the body of a response apart, which are two system calls of the server and often two
    wake-ups of the client. It tells of a disconnect by a message only, for which a task has to wait.
    """

    __slots__ = ("cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self.cycle = cycle

    def take_body(self) -> bytes | None:
        """Return the body of the request if it has arrived, as `receive` would; else None."""
        cycle = self.cycle
        if cycle.more_body or cycle.disconnected or cycle.response_complete or cycle.waiting_for_100_continue:
            return None
        cycle.flow.resume_reading()
        cycle.message_event.clear()
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def __call__(self, message: Any) -> Awaitable[None]:
        cycle = self.cycle
        if cycle.more_body and not cycle.response_started:
            # The rest of the body may be of any size, so no other request can follow it on this connection.
            cycle.keep_alive = False
            cycle.transport = _LastResponse(cycle.transport)
        return cycle.send(message)

    async def whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send an ordinary response in one write. Anything else is left to uvicorn."""
        cycle = self.cycle
        head = _build_head(status, tuple(headers))
        if (
            head is None
            or len(body) > _OWN_WRITE_BYTES
            or not cycle.keep_alive
            or cycle.more_body
            or cycle.disconnected
            or cycle.response_started
            or cycle.flow.write_paused
            or cycle.scope["method"] == "HEAD"
        ):
            await send_messages(self, status, headers, body)
            return
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        cycle.message_event.set()
        cycle.on_response()

    def on_disconnect(self, call: Callable[[], None] | None) -> None:
        """Let `call` be called when the client disconnects before the complete response; at once if it has."""
        self.cycle.on_disconnect = call  # type: ignore[attr-defined]
        if call is not None and self.cycle.disconnected:
            call()


@lru_cache(maxsize=256)
def _build_head(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes | None:
    """Return the head of a response up to its Content-Length; None if uvicorn must judge its status or headers."""
    if (
        status < 200
        or status in STATUSES_WITHOUT_BODY
        or not all(_is_ordinary(*header) for header in headers)
    ):
        return None
    return STATUS_LINE[status] + b"".join([b"%b: %b\r\n" % header for header in headers])


def _is_ordinary(name: bytes, value: bytes) -> bool:
    is_well_formed = not HEADER_RE.search(name) and not HEADER_VALUE_RE.search(value)
    return is_well_formed and name.lower() not in _UVICORN_ONLY


class _LastResponse(asyncio.Transport):
    """The transport of a response after which the connection closes, although its request is not read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self.write = transport.write  # type: ignore[method-assign]
        self.is_closing = transport.is_closing  # type: ignore[method-assign]
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]
        self.abort = transport.abort  # type: ignore[method-assign]

    def close(self) -> None:
        protocol = self._transport.get_protocol()
        assert isinstance(protocol, GymHttpProtocol)
        protocol.linger()


class ListenerState(ServerState):
    """The state that the connections of a listener share."""

    def __init__(self, head_s: float = HEAD_S, max_parts: int = MAX_PART_HEADS) -> None:
        super().__init__()
        self.heads = AwaitedHeads(head_s, max_parts)
        self.held = HeldTotal()


class AwaitedHeads:
    """The connections whose next head is not complete: new ones, and those that hold a part of one.

    A head that is late gets a little more time, in which the event loop reads what arrived while a handler held it.
    """

    def __init__(self, head_s: float, max_parts: int) -> None:
        self.head_s = head_s
        self._max_parts = max_parts
        self._young: dict[GymHttpProtocol, None] = {}
        self._old: dict[GymHttpProtocol, None] = {}
        self._late: dict[GymHttpProtocol, None] = {}
        self.parts: dict[GymHttpProtocol, None] = {}
        """Those that hold a part, the oldest first."""
        self._next: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._young) + len(self._old) + len(self._late)

    def add(self, connection: GymHttpProtocol) -> None:
        self._young[connection] = None
        if self._next is None:
            self._next = connection.loop.call_later(self.head_s / 2, self._age, connection.loop)

    def hold_part(self, connection: GymHttpProtocol) -> None:
        """Note that a connection has sent a part of a head."""
        if connection in self.parts:
            return
        self.parts[connection] = None
        if connection not in self._old and connection not in self._late:
            self.add(connection)
        if len(self.parts) > self._max_parts:
            next(iter(self.parts)).end_late_head()

    def remove(self, connection: GymHttpProtocol) -> None:
        for waiting in (self._young, self._old, self._late, self.parts):
            waiting.pop(connection, None)

    def _age(self, loop: asyncio.AbstractEventLoop) -> None:
        self._late, self._old, self._young = self._old, self._young, {}
        if self._late:
            loop.call_later(self.head_s / 20, self._end_late)
        self._next = loop.call_later(self.head_s / 2, self._age, loop) if len(self) else None

    def _end_late(self) -> None:
        for connection in list(self._late):
            connection.end_late_head()


class GymHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds, the gym's error form for bytes that are not HTTP, and word of disconnects."""

    server_state: ListenerState
    flow: HeldFlow

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unparsed = 0
        """Bytes that arrived since the last complete head, part of a body, or end of a request."""
        self._is_in_head = False
        self._tail = b""
        """The last bytes of a part of a head."""
        self._awaits_head = False
        self._handled: RequestResponseCycle | None = None
        """The request in a handler, or the last one that was. `cycle` is the last one that arrived."""
        self._refusal: InputError | None = None
        self._is_ending = False
        """Whether everything that the client still sends is discarded."""
        self._closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = HeldFlow(transport, self.server_state.held)
        self._awaits_head = True
        self.server_state.heads.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        if self._closing is not None:
            self._closing.cancel()
        super().connection_lost(exc)
        self.flow.release()
        if self._handled is not None and not self._handled.response_complete:
            self._handled.disconnected = True
            self._handled.message_event.set()
        self._tell_disconnect()

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        cycle = self.cycle
        if (
            not self._is_in_head
            and (cycle is None or cycle.response_complete)
            and not self.pipeline
            and data.count(BLANK_LINE) < 2
        ):
            # One request at most, as nearly always: nothing of it has to wait.
            self._parse_piece(data)
            if self._is_in_head:
                self._tail = data[-3:]
        elif not self.flow.is_holding:
            self._parse(Unparsed(data))
        elif not self.flow.add(data):
            self._refuse(_too_many_waiting())

    def _parse(self, part: Unparsed) -> None:
        """Parse bytes up to the first request that has to wait, and hold the rest."""
        data, start = part
        tail = self._tail
        while start < len(data) and not self.pipeline:
            is_answered = self.cycle is None or self.cycle.response_complete
            end = find_piece_end(Unparsed(data, start), tail, is_answered=is_answered)
            self._parse_piece(data if end - start == len(data) else memoryview(data)[start:end])  # type: ignore[arg-type]
            if self._is_ending or self not in self.connections:  # refused, or now a websocket
                return
            start, tail = end, b""
        self._tail = (self._tail + data[-3:])[-3:] if self._is_in_head else b""
        if self.pipeline:
            head_bytes = len(self.url) + sum(len(name) + len(value) for name, value in self.scope["headers"])
            if not self.flow.hold(Unparsed(data, start), head_bytes):
                self._refuse(_too_many_waiting())

    def _parse_piece(self, data: bytes) -> None:
        self._unparsed += len(data)
        super().data_received(data)
        if self._is_ending:
            return
        if self._unparsed > MAX_HEAD_BYTES:
            self._refuse(_too_large(self.url if self._is_in_head else b""))
        elif self._is_in_head or (self._unparsed and (self.cycle is None or not self.cycle.more_body)):
            self._awaits_head = True
            self.server_state.heads.hold_part(self)

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if (
            len(self.url) > MAX_URL_BYTES
            or len(self.headers) > MAX_HEADERS
            or (
                self._unparsed > MAX_HEAD_BYTES
                and len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
                > MAX_HEAD_BYTES
            )
        ):
            self._refusal = _too_large(self.url)
            raise self._refusal
        self._unparsed, self._is_in_head = 0, False
        self._forget_head()
        if self.expect_100_continue and self.parser.get_http_version() == "1.0":
            self.expect_100_continue = False  # its clients know no interim response
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            self.headers = []  # the fields after a chunked body are not headers

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        if self._is_ending:
            if is_last:
                self.linger()
        elif self.flow.is_holding and not self.transport.is_closing():
            self._parse(self.flow.release())

    def send_400_response(self, msg: str) -> None:
        refusal, self._refusal = self._refusal, None
        self._refuse(
            refusal
            or InputError(
                f"the request is not valid HTTP: {msg}", code="invalid_http", status=HTTPStatus.BAD_REQUEST
            )
        )

    def end_late_head(self) -> None:
        """Close a connection whose head is late. One that has sent nothing gets no response."""
        self._forget_head()
        if not self._unparsed and not self._is_in_head:
            self.transport.close()
            return
        self._refuse(
            InputError(
                f"the head of the request was not complete within {self.server_state.heads.head_s:g} s, or too many "
                "others were incomplete",
                code="request_timeout",
                status=HTTPStatus.REQUEST_TIMEOUT,
            )
        )

    def linger(self) -> None:
        """Close the connection soon, and discard what arrives until then."""
        if self._closing is not None:
            return
        self._is_ending = True
        self._forget_head()
        if self.transport.is_closing():
            return
        self.flow.release()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._closing = self.loop.call_later(LINGER_S, self.transport.close)

    def _refuse(self, refusal: InputError) -> None:
        """Refuse what the client sends now and everything after it; earlier requests are answered."""
        self._is_ending = True
        self._forget_head()
        self.flow.release()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if self.pipeline and cycle.more_body:
                self.pipeline.popleft()  # its body is broken
                return
            if not cycle.more_body:
                return  # `on_response_complete` ends the connection
            cycle.disconnected = True
            cycle.message_event.set()
            self._tell_disconnect()
            if cycle.response_started:
                self.transport.close()
                return
        failure = refusal.failure
        body = orjson.dumps(failure.to_wire())
        head = _build_head(failure.http_status, ((b"content-type", b"application/json"),)) or b""
        self.transport.write(b"%bcontent-length: %d\r\nconnection: close\r\n\r\n%b" % (head, len(body), body))
        self.linger()

    def _forget_head(self) -> None:
        if self._awaits_head:
            self._awaits_head = False
            self.server_state.heads.remove(self)

    def _tell_disconnect(self) -> None:
        call = getattr(self._handled, "on_disconnect", None)
        if call is not None and self._handled is not None and self._handled.disconnected:
            call()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._handled = cycle
        super()._start_asgi_task(cycle, app)


def _too_large(url: bytes) -> InputError:
    """Return the refusal of a head whose URL, as far as it is known, is `url`."""
    if len(url) > MAX_URL_BYTES:
        return InputError(
            f"the URL of the request has more than {MAX_URL_BYTES} bytes",
            code="url_too_long",
            status=HTTPStatus.REQUEST_URI_TOO_LONG,
        )
    return InputError(
        f"the head of the request has more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers",
        code="headers_too_large",
        status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    )


def _too_many_waiting() -> InputError:
    return InputError(
        f"the requests that wait behind others of their connections have {MAX_HELD_BYTES >> 20} MiB, and this server "
        "reads no more of them",
        code="requests_waiting",
        retryable=True,
        status=HTTPStatus.SERVICE_UNAVAILABLE,
    )
