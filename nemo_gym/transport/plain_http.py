"""HTTP/1.1 between servers of a gym: one call at a time on a kept-open connection, whole answers, nothing else.

A rollout makes eight or more of these calls, and a general client spends three times the CPU on each. What this one
leaves out (TLS, proxies, redirects, compression, streams) goes through aiohttp (`nemo_gym/transport/full_http.py`).
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools

from nemo_gym.transport.calls import Call, Reply

CONNECT_TIMEOUT_S = 5.0
_DESCRIPTOR_WAIT_S = 0.1
IDLE_S = 30.0
"""Idle connections are dropped before our servers (75 s) would drop them."""
_KEEPALIVE_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_BREAKS_OFF = re.compile(r"[ \r\n]")
_MOST_BEGINS = 1000
_COPIED_BODY_BYTES = 1 << 16
"""A body up to this size leaves in one piece with its head."""


class InvalidCall(ValueError):
    """A URL, path or header that can't be sent: nothing was."""


class NotConnected(Exception):
    """No connection came about: nothing was sent. `cause` says why."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class ConnectTimeout(OSError):
    """The peer did not accept the connection in time."""


def probe_when_silent(connection: socket.socket) -> None:
    """Let the kernel find out when the other end of a silent connection is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_PROBES:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


@dataclass(slots=True)
class _Origin:
    """A base URL taken apart, and its idle connections, the one used last at the end."""

    host: str
    port: int
    netloc: str
    prefix: str
    idle: list[_Connection] = field(default_factory=list)
    begins: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, base_url: str) -> _Origin:
        try:
            parts = urlsplit(base_url)
            port = parts.port or 80
        except ValueError as error:
            raise InvalidCall(str(error)) from error
        if parts.scheme != "http" or not parts.hostname:
            raise InvalidCall("there is no host in it")
        if parts.query or parts.fragment or parts.username:
            raise InvalidCall("a base URL has neither query nor credentials")
        netloc = parts.netloc.rpartition("@")[2]
        return cls(parts.hostname, port, netloc, parts.path.rstrip("/"))

    def request(self, call: Call) -> list[bytes]:
        """The bytes of `call`, in one piece or two."""
        body = call.body or b""
        begin = self.begins.get((call.method, call.path)) or self._begin(call.method, call.path)
        headers = "".join([f"{name}: {value}\r\n" for name, value in call.headers.items()])
        if headers.count("\n") != len(call.headers) or headers.count("\r") != len(call.headers):
            raise InvalidCall("a header holds a line break")
        length = f"Content-Length: {len(body)}\r\n\r\n" if body or call.method in _WITH_BODY else "\r\n"
        try:
            head = f"{begin}{headers}{length}".encode("latin-1")
        except UnicodeEncodeError as error:
            raise InvalidCall(f"a header holds a character that HTTP has not: {error}") from error
        return [head + body] if len(body) <= _COPIED_BODY_BYTES else [head, body]

    def _begin(self, method: str, path: str) -> str:
        """The first lines of a request, which are the same for all calls of a path."""
        if not path.startswith("/") or _BREAKS_OFF.search(path):
            raise InvalidCall(f"the path {path!r} can't be sent")
        if len(self.begins) >= _MOST_BEGINS:
            self.begins.clear()
        begin = f"{method} {self.prefix}{path} HTTP/1.1\r\nHost: {self.netloc}\r\n"
        self.begins[method, path] = begin
        return begin


class _Connection(asyncio.Protocol):
    """One connection. `exchange` sends a request and gives the future of its answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_lost: Callable[[], None]) -> None:
        self._loop = loop
        self._on_lost = on_lost
        self.is_made = False
        self.is_reusable = True
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._has_headers = False

    def exchange(self, request: list[bytes]) -> asyncio.Future[Reply]:
        assert self._transport is not None
        answer = self._answer = self._loop.create_future()
        if len(request) == 1:
            self._transport.write(request[0])
        else:
            self._transport.writelines(request)
        return answer

    def abort(self) -> None:
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class
        self.is_made = True
        opened = transport.get_extra_info("socket")
        if opened is not None:
            probe_when_silent(opened)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break_off(ConnectionError(f"its answer is not HTTP: {error}"))

    def eof_received(self) -> None:
        self.is_reusable = False
        if self._has_headers and self._ends_with_connection():
            self._finish(self._parser.get_status_code())

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost()
        self.is_reusable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the connection was closed"))

    # What the parser tells.

    def on_message_begin(self) -> None:
        self._headers = []
        self._body = []
        self._has_headers = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._has_headers = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # before that the answer is still to come
            if not self._parser.should_keep_alive():
                self.is_reusable = False
            self._finish(status)

    def _finish(self, status: int) -> None:
        answer = self._answer
        self._has_headers = False
        if answer is None or answer.done():
            self._break_off(ConnectionError("it answered without having been asked"))
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        answer.set_result(Reply(status, self._headers, body))

    def _ends_with_connection(self) -> bool:
        return not any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in self._headers)

    def _break_off(self, error: ConnectionError) -> None:
        self.abort()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


class PlainHttp:
    """Sends calls to `http://` URLs.

    Raises `InvalidCall`, `NotConnected`, `ConnectTimeout` and `socket.gaierror` before anything was sent, and another
    `OSError` when nobody knows whether the peer executed the call.
    """

    def __init__(self) -> None:
        self.most_open: int | None = None
        """Connections that may be open, in use and idle together; None for any number."""
        self._origins: dict[str, _Origin] = {}
        self._open = 0
        """Connections, and those that are coming about: what has a descriptor."""
        self._is_closed = False

    async def send(self, base_url: str, call: Call) -> Reply:
        origin = self._origins.get(base_url)
        if origin is None:
            origin = self._origins[base_url] = _Origin.of(base_url)
        request = origin.request(call)
        connection = _idle_connection(origin) or await self._connect(origin)
        try:
            reply = await connection.exchange(request)
        except BaseException:
            connection.abort()  # a caller that gives up closes the connection, so that the peer stops working
            raise
        if connection.is_reusable and not self._is_closed:
            connection.idle_since = time.monotonic()
            origin.idle.append(connection)
        else:
            connection.abort()
        return reply

    async def _connect(self, origin: _Origin) -> _Connection:
        """A new connection, in the place of an idle one to somebody else where no more may be open.

        A descriptor is free only a moment after its connection was given up, so being out of them is waited out.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + CONNECT_TIMEOUT_S
        if self.most_open is not None and self._open >= self.most_open and self._drop_longest_idle():
            await asyncio.sleep(0)  # then it is closed
        while True:
            connection = _Connection(loop, self._lose)
            self._open += 1
            try:
                await _connect(origin, connection)
                return connection
            except BaseException as error:
                if not connection.is_made:  # else it tells by itself that it is lost
                    self._open -= 1
                is_out_of_files = isinstance(error, NotConnected) and error.cause.errno == errno.EMFILE
                if not is_out_of_files or not self._open or loop.time() >= until:
                    raise
            self._drop_longest_idle()
            await asyncio.sleep(_DESCRIPTOR_WAIT_S)

    def _lose(self) -> None:
        self._open -= 1

    def _drop_longest_idle(self) -> bool:
        """Close the connection that was used longest ago; False where none is idle."""
        kept = [origin for origin in self._origins.values() if origin.idle]
        if not kept:
            return False
        min(kept, key=lambda origin: origin.idle[0].idle_since).idle.pop(0).abort()
        return True

    async def close(self) -> None:
        self._is_closed = True
        for origin in self._origins.values():
            while origin.idle:
                origin.idle.pop().abort()


def _idle_connection(origin: _Origin) -> _Connection | None:
    """The connection used last that is still open and fresh; older ones are dropped on the way."""
    oldest = time.monotonic() - IDLE_S
    while origin.idle:
        connection = origin.idle.pop()
        if connection.is_reusable and connection.idle_since >= oldest:
            return connection
        connection.abort()
    return None


async def _connect(origin: _Origin, connection: _Connection) -> None:
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(CONNECT_TIMEOUT_S)
    try:
        async with limit:
            await loop.create_connection(lambda: connection, origin.host, origin.port)
    except TimeoutError as error:
        if limit.expired():
            raise ConnectTimeout(f"no connection within {CONNECT_TIMEOUT_S:g} s") from error
        raise NotConnected(error) from error
    except socket.gaierror:
        raise
    except OSError as error:
        raise NotConnected(error) from error
