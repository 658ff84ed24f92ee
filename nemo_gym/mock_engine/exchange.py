"""One HTTP exchange on bare ASGI, with the operations of a faulty server: wait, detect that the client disconnected,
send fewer bytes than announced, and cut the connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Sequence
from typing import NoReturn

from starlette.types import Receive, Scope, Send

from nemo_gym.serving.connections import UvicornSend
from nemo_gym.serving.disconnects import DisconnectWatch
from nemo_gym.serving.request_bodies import BodyReader, require_plain
from nemo_gym.transport.whole_response import send_response

JSON = b"application/json"
_ABORT_WITH_RST = struct.pack("ii", 1, 0)
"""SO_LINGER on, for zero seconds: closing the socket sends a TCP reset."""

Header = tuple[bytes, bytes]


class ConnectionEnded(Exception):
    """The connection has ended, and with it the handling of the request. The app catches it."""


class ClientLeft(ConnectionEnded):
    """The client closed the connection."""


class ConnectionCut(ConnectionEnded):
    """The server cut the connection because of a fault."""


class Exchange:
    """A request and the answer to it, on bare ASGI."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.status: int | None = None
        """The answer's status; None before the answer starts."""
        self._receive = receive
        self._send = send

    def header(self, name: str) -> str | None:
        """Return a request header, or None. `name` is in lower case."""
        wanted = name.encode("latin-1")
        return next(
            (value.decode("latin-1") for given, value in self.scope["headers"] if given == wanted), None
        )

    async def body(self, bodies: BodyReader, *, is_trusted: bool) -> bytes:
        """Return the whole request body. Raises ClientLeft, and as `BodyReader.read` and `require_plain`."""
        require_plain(self.scope["headers"])
        length = self.header("content-length")
        announced = None if length is None else length.encode("latin-1")
        body = await bodies.read(self._receive, announced, is_trusted=is_trusted)
        if body is None:
            raise ClientLeft
        return body

    async def pause(self, seconds: float) -> None:
        """Wait. Raises ClientLeft as soon as the client disconnects."""
        if seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.wait_until_left()
        except TimeoutError:
            return

    async def wait_for(self, awaited: Awaitable[None]) -> None:
        """Await `awaited`. When the client disconnects, cancel it and raise ClientLeft."""
        watch = DisconnectWatch(self._receive)
        await watch.run(awaited)
        if watch.has_disconnected:
            raise ClientLeft

    async def wait_until_left(self) -> NoReturn:
        """Wait until the client disconnects, then raise ClientLeft."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        raise ClientLeft

    async def answer(
        self, status: int, body: bytes, content_type: bytes = JSON, headers: Sequence[Header] = ()
    ) -> None:
        """Send a whole answer."""
        self.status = status
        await send_response(self._send, status, [(b"content-type", content_type), *headers], body)

    async def start(self, status: int, content_type: bytes, headers: Sequence[Header] = ()) -> None:
        """Send the head of an answer. Without a content length the body is chunked."""
        self.status = status
        sent = [(b"content-type", content_type), *headers]
        await self._send(
            {"type": "http.response.start", "status": status, "headers": sent, "trailers": False}
        )

    async def write(self, body: bytes, *, is_last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})

    async def cut(self, *, with_reset: bool) -> NoReturn:
        """End the connection by a TCP reset or an orderly close. Always raises ConnectionCut.

        Without a socket, the app returns without an answer, which has the same effect.
        """
        if not isinstance(self._send, UvicornSend):
            raise ConnectionCut
        transport = self._send.cycle.transport
        if with_reset:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_WITH_RST)
            transport.abort()
        else:
            transport.close()
        try:
            await self.wait_until_left()  # uvicorn logs an error for an app that returns before that
        except ClientLeft as left:
            raise ConnectionCut from left
