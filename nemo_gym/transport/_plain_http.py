"""The HTTP/1.1 client between servers of a gym: persistent connections, one call at a time, complete responses.

A rollout makes eight or more of these calls, and each takes a quarter of aiohttp's CPU time: 0.046 ms instead of
0.180 ms for a body of 1 KB, 0.055 ms instead of 0.190 ms for 30 KB (CPU of the client on uvloop, 64 calls in flight).
It speaks TLS with the servers of a gym that uses it. aiohttp handles other `https://` URLs, proxies, redirects,
compression and streams (`nemo_gym/transport/_full_http.py`).

A connection is reused only after a response that ended exactly where its head announced. Bytes that arrive before a
call is sent close the connection, so that no call receives the response of another one.
"""

from __future__ import annotations

import asyncio
import errno
import re
import select
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from nemo_gym.failures import TransportError
from nemo_gym.transport import local_sockets
from nemo_gym.transport._answer_parser import AnswerError, AnswerParser, whole_reply
from nemo_gym.transport._errors import DISCONNECTED, call_failed
from nemo_gym.transport.calls import Call, Reply

CONNECT_TIMEOUT_S = 5.0
MOST_OPENING = 256
"""The most connections that a client opens to one peer at once; more calls wait.

A busy peer accepts none for a while. If its backlog (4,096) is full and thousands more connect, Linux drops the end of
their handshakes and later resets them. A call that was sent on such a connection may have been executed, as far as its
sender can tell.
"""
_DESCRIPTOR_WAIT_S = 0.1
IDLE_S = 30.0
"""Idle connections are closed before the gym's servers close them (after 75 s)."""
_KEEPALIVE_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_INVALID_IN_PATH = re.compile(r"[^\x21-\xff]")
_RESERVED_HEADERS = frozenset({"host", "content-length", "transfer-encoding"})
"""Headers that only this client may set: they frame the request and name its host."""
_MAX_CACHED_BEGINS = 1000
_COPIED_BODY_BYTES = 1 << 16
"""A body up to this size is sent in one piece with its head."""


def probe_when_silent(connection: socket.socket) -> None:
    """Enable TCP keep-alive, so that the kernel detects a dead peer on a silent connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_PROBES:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


@dataclass(slots=True)
class _Origin:
    """A parsed base URL and its idle connections, the most recently used one last."""

    url: str
    host: str
    port: int
    netloc: str
    prefix: str
    opening: asyncio.Semaphore
    """Bounds the connections that are opened at once."""
    tls: ssl.SSLContext | None
    idle: list[_Connection] = field(default_factory=list)
    begins: dict[tuple[str, str], bytes] = field(default_factory=dict)

    @classmethod
    def from_url(cls, base_url: str, most_opening: int, tls: ssl.SSLContext | None) -> _Origin:
        try:
            parts = urlsplit(base_url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise call_failed("invalid_url", base_url, error) from error
        if not parts.hostname:
            raise call_failed("invalid_url", base_url, "the URL has no host")
        if parts.scheme != "http" and (parts.scheme != "https" or tls is None):
            raise call_failed("invalid_url", base_url, f"{parts.scheme} needs the certificates to trust")
        if parts.query or parts.fragment or parts.username:
            raise call_failed("invalid_url", base_url, "a base URL must not have a query or credentials")
        netloc = parts.netloc.rpartition("@")[2]
        opening = asyncio.Semaphore(most_opening)
        tls = tls if parts.scheme == "https" else None
        return cls(base_url, parts.hostname, port, netloc, parts.path.rstrip("/"), opening, tls)

    def request(self, call: Call) -> list[bytes]:
        """Encode `call` as one or two pieces of bytes."""
        body = call.body or b""
        begin = self.begins.get((call.method, call.path)) or self._begin(call.method, call.path)
        if not _RESERVED_HEADERS.isdisjoint(call.headers):
            raise self._invalid(
                f"the client itself sets these headers: {', '.join(sorted(_RESERVED_HEADERS & call.headers.keys()))}"
            )
        lines = list(map(": ".join, call.headers.items()))
        try:
            headers = "\r\n".join((*lines, "")).encode("latin-1")
        except UnicodeEncodeError as error:
            raise self._invalid(f"a header contains a character outside Latin-1: {error}") from error
        if len(headers.splitlines()) != len(lines):
            raise self._invalid("a header contains a line break")
        if body or call.method in _WITH_BODY:
            headers += b"Content-Length: %d\r\n" % len(body)
        head = b"%b%b\r\n" % (begin, headers)
        return [head + body] if len(body) <= _COPIED_BODY_BYTES else [head, body]

    def _begin(self, method: str, path: str) -> bytes:
        """Return the first lines of a request, cached per method and path."""
        if not path.startswith("/") or _INVALID_IN_PATH.search(path):
            raise self._invalid(f"the path {path!r} is invalid")
        if len(self.begins) >= _MAX_CACHED_BEGINS:
            self.begins.clear()
        begin = f"{method} {self.prefix}{path} HTTP/1.1\r\nHost: {self.netloc}\r\n".encode("latin-1")
        self.begins[method, path] = begin
        return begin

    def _invalid(self, detail: str) -> TransportError:
        return call_failed("invalid_url", self.url, detail)


class _Connection(asyncio.Protocol):
    """A connection. `exchange` sends a request and returns a future for its reply."""

    def __init__(self, loop: asyncio.AbstractEventLoop, peer: str, on_lost: Callable[[], None]) -> None:
        self._loop = loop
        self._peer = peer
        self._on_lost = on_lost
        self.is_made = False
        self.is_reusable = True
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._readable = select.poll()
        self._answer: asyncio.Future[Reply] | None = None
        self._method: str | None = None
        """The method of the pending request; None while idle."""
        self._parser: AnswerParser | None = None
        """The parser of a pending response that has begun and is not of the common form."""

    def is_silent(self) -> bool:
        """Return whether the peer has neither sent data since its last response nor closed the connection.

        The check polls the socket itself, because the event loop may not have read the data yet.
        """
        return self.is_reusable and not self._readable.poll(0)

    def exchange(self, method: str, request: list[bytes]) -> asyncio.Future[Reply]:
        assert self._transport is not None
        self._method = method
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

    # --- The event loop calls these -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass
        self.is_made = True
        opened = transport.get_extra_info("socket")
        if opened.family != socket.AF_UNIX:
            probe_when_silent(opened)
        self._readable.register(opened.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._method is None:
            self.abort()
            return
        if self._parser is None:
            reply = whole_reply(data) if self._method != "HEAD" else None
            if reply is not None:
                self._finish(reply, keeps_alive=True)
                return
            self._parser = AnswerParser(self._method)
        try:
            self._parser.feed(data)
            if self._parser.is_whole:
                self._finish(self._parser.reply(), self._parser.keeps_alive)
        except AnswerError as error:
            self._fail(error.code, error)

    def eof_received(self) -> None:
        self.is_reusable = False
        if self._method is None:
            return
        parser = self._parser or AnswerParser(self._method)
        try:
            parser.end()
            self._finish(parser.reply(), keeps_alive=False)
        except AnswerError as error:
            self._fail(error.code, error)

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost()
        self.is_reusable = False
        self._fail(DISCONNECTED, error or "the connection was closed")

    def _finish(self, reply: Reply, keeps_alive: bool) -> None:
        assert self._transport is not None
        if not keeps_alive or self._transport.get_write_buffer_size():
            self.is_reusable = False
        self._method = self._parser = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)

    def _fail(self, code: str, cause: Exception | str) -> None:
        self.abort()
        self._method = self._parser = None
        if self._answer is not None and not self._answer.done():
            error = call_failed(code, self._peer, cause)
            error.__cause__ = cause if isinstance(cause, Exception) else None
            self._answer.set_exception(error)


@dataclass(eq=False, kw_only=True)
class PlainHttp:
    """A `Transport` for `http://` URLs, and with `tls` for `https://` URLs."""

    tls: ssl.SSLContext | None = None
    most_opening: int = MOST_OPENING
    run: str | None = None
    """The run whose servers may be called by sockets within the machine (`local_sockets`)."""
    max_open: int | None = None
    """Limit for open connections, in use and idle; None for no limit."""
    _origins: dict[str, _Origin] = field(default_factory=dict)
    _open: int = 0
    """Connections that have a file descriptor or are about to get one."""
    _is_closed: bool = False

    async def send(self, base_url: str, call: Call) -> Reply:
        origin = self._origins.get(base_url)
        if origin is None:
            origin = self._origins[base_url] = _Origin.from_url(base_url, self.most_opening, self.tls)
        request = origin.request(call)
        connection = _idle_connection(origin)
        if connection is None:
            async with origin.opening:  # meanwhile another call may have finished
                connection = _idle_connection(origin) or await self._connect(origin)
        try:
            reply = await connection.exchange(call.method, request)
        except BaseException:
            connection.abort()  # closing the connection cancels the handler of the peer
            raise
        if connection.is_reusable and not self._is_closed:
            connection.idle_since = time.monotonic()
            origin.idle.append(connection)
        else:
            connection.abort()
        return reply

    async def _connect(self, origin: _Origin) -> _Connection:
        """Open a connection; at the limit, an idle connection to another peer is closed first.

        A closed connection frees its file descriptor a moment later, so the call retries while none is left.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + CONNECT_TIMEOUT_S
        if self.max_open is not None and self._open >= self.max_open and self._drop_longest_idle():
            await asyncio.sleep(0)  # the transport closes in the next iteration
        while True:
            connection = _Connection(loop, origin.url, self._lose)
            self._open += 1
            try:
                await _connect(origin, connection, self.run)
                return connection
            except BaseException as error:
                if not connection.is_made:  # otherwise `connection_lost` decrements the count
                    self._open -= 1
                is_out_of_files = isinstance(error, TransportError) and error.failure.code == "too_many_files"
                if not is_out_of_files or not self._open or loop.time() >= until:
                    raise
            self._drop_longest_idle()
            await asyncio.sleep(_DESCRIPTOR_WAIT_S)

    def _lose(self) -> None:
        self._open -= 1

    def _drop_longest_idle(self) -> bool:
        """Close the least recently used idle connection. Returns False if none is idle."""
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
    """Return the most recently used connection that can be reused; close the unusable ones."""
    oldest = time.monotonic() - IDLE_S
    while origin.idle:
        connection = origin.idle.pop()
        if connection.idle_since >= oldest and connection.is_silent():
            return connection
        connection.abort()
    return None


async def _connect(origin: _Origin, connection: _Connection, run: str | None) -> None:
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(CONNECT_TIMEOUT_S)
    local = None if run is None or origin.tls is not None else local_sockets.connect(run, origin.url)
    try:
        async with limit:
            if local is not None:
                await loop.create_unix_connection(lambda: connection, sock=local)
            else:
                await loop.create_connection(lambda: connection, origin.host, origin.port, ssl=origin.tls)
    except OSError as error:  # TimeoutError and socket.gaierror included
        if limit.expired():
            raise call_failed(
                "connect_timeout", origin.url, f"no connection within {CONNECT_TIMEOUT_S:g} s"
            ) from error
        raise build_connect_error(origin.url, error) from error
    if not connection.is_silent():
        connection.abort()
        raise call_failed("unasked_answer", origin.url, "before the request")


def build_connect_error(peer: str, cause: OSError) -> TransportError:
    """Return the error for a connection that could not be opened: nothing was sent."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return call_failed("untrusted", peer, cause.verify_message)
    if isinstance(cause, ssl.SSLError):
        return call_failed("no_tls", peer, cause)
    if isinstance(cause, socket.gaierror):
        return call_failed("name_unresolved", peer, cause)
    return call_failed("too_many_files" if cause.errno == errno.EMFILE else "connect_refused", peer, cause)
