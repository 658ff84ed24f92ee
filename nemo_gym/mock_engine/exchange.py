"""One HTTP exchange, with what a badly behaved server needs: to wait, to notice that the client left, to send less
than it announced, and to cut the connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Sequence
from typing import Any, NoReturn

from starlette.types import Receive, Scope, Send

from nemo_gym.serving.disconnects import DisconnectWatch

JSON = b"application/json"
_ABORT_WITH_RST = struct.pack("ii", 1, 0)
"""SO_LINGER on, for zero seconds: closing the socket sends a reset instead of an orderly end."""

Header = tuple[bytes, bytes]


class ConnectionEnded(Exception):
    """There is nobody left to answer. Ends the handling of a request; never leaves the app."""


class ClientLeft(ConnectionEnded):
    """The client closed the connection."""


class ConnectionCut(ConnectionEnded):
    """The fault plan had this server cut the connection."""


class Exchange:
    """A request and the answer to it, on bare ASGI."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.status: int | None = None
        """The status of the answer, once it has begun."""
        self._receive = receive
        self._send = send

    def header(self, name: str) -> str | None:
        """A header of the request, `name` in lower case."""
        wanted = name.encode("latin-1")
        return next(
            (value.decode("latin-1") for given, value in self.scope["headers"] if given == wanted), None
        )

    async def body(self) -> bytes:
        """The whole request body. Raises ClientLeft."""
        body = b""
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientLeft
            part: bytes = message.get("body", b"")
            body = body + part if body else part
            if not message.get("more_body", False):
                return body

    async def pause(self, seconds: float) -> None:
        """Waits, and raises ClientLeft as soon as the client goes away."""
        if seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.until_left()
        except TimeoutError:
            return

    async def wait_for(self, awaited: Awaitable[None]) -> None:
        """Awaits, and raises ClientLeft as soon as the client goes away: `awaited` is then cancelled."""
        watch = DisconnectWatch(self._receive, self._send)
        await watch.run(awaited)
        if watch.has_left:
            raise ClientLeft

    async def until_left(self) -> NoReturn:
        """Waits until the client goes away, then raises ClientLeft."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        raise ClientLeft

    async def answer(
        self, status: int, body: bytes, content_type: bytes = JSON, headers: Sequence[Header] = ()
    ) -> None:
        """Sends a whole answer."""
        await self.start(status, content_type, (*headers, (b"content-length", b"%d" % len(body))))
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def start(self, status: int, content_type: bytes, headers: Sequence[Header] = ()) -> None:
        """Sends the head of an answer; without a content length, its body is chunked."""
        self.status = status
        sent = [(b"content-type", content_type), *headers]
        await self._send(
            {"type": "http.response.start", "status": status, "headers": sent, "trailers": False}
        )

    async def write(self, body: bytes, *, is_last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})

    async def cut(self, *, with_reset: bool) -> NoReturn:
        """Ends the connection, by a TCP reset or by closing it in order. Always raises ConnectionCut.

        In memory there is no connection: the app then returns without having answered, which says the same.
        """
        cycle = getattr(self._send, "__self__", None)  # uvicorn's, which has the connection's transport
        transport: Any = getattr(cycle, "transport", None)
        if transport is None:
            raise ConnectionCut
        if with_reset:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_WITH_RST)
            transport.abort()
        else:
            transport.close()
        try:
            await self.until_left()  # the server takes an app that returns before that for a broken one
        except ClientLeft as left:
            raise ConnectionCut from left
