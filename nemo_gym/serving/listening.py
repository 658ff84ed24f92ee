"""HTTP over sockets: uvicorn serves every app, including the mock engine."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import orjson
import uvicorn
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
from nemo_gym.transport.whole_response import STATUSES_WITHOUT_BODY, RawHeaders, send_messages

log = logging.getLogger(__name__)

SERVER_KEEPALIVE_S = 75
"""Longer than clients keep an idle connection, so that the server never closes one during a request."""
DRAIN_S = 1
BACKLOG = 4_096
"""Connections that may wait to be accepted: thousands of clients can connect at the same moment."""


_OWN_WRITE_BYTES = 1 << 16
"""A larger body is written apart from its head, because joining them would copy it."""
_UVICORN_ONLY = frozenset({b"connection", b"transfer-encoding", b"content-length"})


def with_whole_responses(app: ASGIApp) -> ASGIApp:
    """Wrap `app` for uvicorn, so that it can send a complete response in one call (`whole_response`)."""

    def serve(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        cycle = getattr(send, "__self__", None)
        return app(scope, receive, UvicornSend(cycle) if isinstance(cycle, RequestResponseCycle) else send)

    return serve


class UvicornSend:
    """uvicorn's `send` for one request, with the methods `whole` and `on_disconnect`.

    uvicorn writes the head and the body of a response apart, which are two system calls of the server and often two
    wake-ups of the client. It tells of a disconnect by a message only, for which a task has to wait.
    """

    __slots__ = ("cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self.cycle = cycle

    def __call__(self, message: Any) -> Awaitable[None]:
        return self.cycle.send(message)

    async def whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send an ordinary response in one write. Anything else is left to uvicorn."""
        cycle = self.cycle
        head = _head_of(status, tuple(headers))
        if (
            head is None
            or len(body) > _OWN_WRITE_BYTES
            or not cycle.keep_alive
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
def _head_of(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes | None:
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


class GymHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the gym's error form for bytes that are not HTTP, which tells of disconnects."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        call = getattr(self.cycle, "on_disconnect", None)
        if call is not None and self.cycle.disconnected:
            call()

    def send_400_response(self, msg: str) -> None:
        failure = InputError(
            f"the request is not valid HTTP: {msg}", code="invalid_http", status=HTTPStatus.BAD_REQUEST
        ).failure
        body = orjson.dumps(failure.to_wire())
        head = _head_of(failure.http_status, ((b"content-type", b"application/json"),)) or b""
        self.transport.write(b"%bcontent-length: %d\r\nconnection: close\r\n\r\n%b" % (head, len(body), body))
        self.transport.close()


def web_config(app: ASGIApp, *, has_lifespan: bool = True) -> uvicorn.Config:
    """Return the uvicorn settings for `app`."""
    return uvicorn.Config(
        with_whole_responses(app),
        loop="none",
        http=GymHttpProtocol,
        interface="asgi3",
        access_log=False,
        log_config=None,
        log_level="warning",
        lifespan="on" if has_lifespan else "off",
        timeout_keep_alive=SERVER_KEEPALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        backlog=BACKLOG,
        server_header=False,
        date_header=False,
        proxy_headers=False,
    )


@contextmanager
def accepting_all(
    listening: socket.socket, new_protocol: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
) -> Iterator[None]:
    """Within the block, accept all connections that wait at `listening` whenever one arrives.

    uvloop itself accepts one in an iteration of its loop. An iteration of a busy server takes long, so its backlog
    would overflow, and the kernel would refuse or reset connections.
    """
    loop = asyncio.get_running_loop()
    own = listening.dup()  # uvloop watches `listening` itself
    own.setblocking(False)
    opening: set[asyncio.Task[Any]] = set()

    def opened(task: asyncio.Task[Any]) -> None:
        opening.discard(task)
        if not task.cancelled() and isinstance(task.exception(), OSError):
            log.debug(
                "a connection was not opened: %s", task.exception()
            )  # its client speaks no TLS, or has gone

    def accept() -> None:
        with suppress(OSError):  # none is left, or no file descriptor
            while True:
                connection, _ = own.accept()
                task = loop.create_task(loop.connect_accepted_socket(new_protocol, connection, ssl=tls))
                opening.add(task)
                task.add_done_callback(opened)

    loop.add_reader(own, accept)
    try:
        yield
    finally:
        loop.remove_reader(own)
        own.close()


class GymServer(uvicorn.Server):
    """uvicorn's server on given sockets, which accepts all connections that wait, and speaks only TLS with `tls`.

    It waits for `should_exit` and does not look ten times per second.
    """

    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        super().__init__(config)
        self._tls = tls
        self._accepting = ExitStack()

    @property
    def should_exit(self) -> bool:
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._should_exit = value
        if value:
            self._loop.call_soon_threadsafe(self._end.set)  # wakes the loop, also from a signal handler

    async def main_loop(self) -> None:
        await self._end.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.ssl = self._tls
        await super().startup(sockets)
        for listening in sockets or ():
            self._accepting.enter_context(accepting_all(listening, self._new_protocol, self._tls))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accepting.close()
        await super().shutdown(sockets)

    def _new_protocol(self) -> asyncio.Protocol:
        return GymHttpProtocol(self.config, self.server_state, self.lifespan.state)


class Listener:
    """Serves an app on one socket in the running event loop.

    It uses uvicorn's protocol without `uvicorn.Server`, which installs signal handlers, wakes up ten times per second,
    and does not bound the time to stop.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tls: ssl.SSLContext | None = None,
        on_connection: Callable[[], None] | None = None,
    ) -> None:
        """With `tls`, only TLS is spoken."""
        self._tls = tls
        self.state = ServerState()
        self._config = web_config(app, has_lifespan=False)
        self._on_connection = on_connection
        self._accepting = ExitStack()

    async def start(self, listening: socket.socket) -> None:
        """Accept connections on the bound socket `listening`; `stop` closes it."""
        self._config.load()
        listening.listen(BACKLOG)
        self._accepting.callback(listening.close)
        self._accepting.enter_context(accepting_all(listening, self._new_protocol, self._tls))

    def _new_protocol(self) -> asyncio.Protocol:
        if self._on_connection is not None:
            self._on_connection()
        return GymHttpProtocol(self._config, self.state, {}, asyncio.get_running_loop())

    async def stop(self, grace_s: float) -> None:
        """Close the socket and all connections. Handlers that still run after `grace_s` seconds are cancelled."""
        self._accepting.close()
        for connection in list(self.state.connections):
            connection.transport.abort()
        handlers = list(self.state.tasks)
        if not handlers:
            return
        _, running = await asyncio.wait(handlers, timeout=grace_s)
        for handler in running:
            handler.cancel()
        await asyncio.gather(*running, return_exceptions=True)
