"""The body of a request as ASGI carries it. It is read whole before a handler begins: half a request has no effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class WholeBody:
    """The ASGI `receive` of a request whose body is known: gives it in one message, and then the messages of `rest`."""

    __slots__ = ("_rest", "_unread", "body")

    def __init__(self, body: bytes, rest: Receive) -> None:
        self.body = body
        self._rest = rest
        self._unread = True

    async def __call__(self) -> Message:
        if self._unread:
            self._unread = False
            return {"type": "http.request", "body": self.body, "more_body": False}
        return await self._rest()


async def read_body(receive: Receive) -> bytes | None:
    """The whole body of a request; None where the client left before all of it had arrived."""
    if type(receive) is WholeBody:
        return receive.body
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        return body
    chunks: list[bytes] = []
    while message["type"] == "http.request":
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)
        message = await receive()
    return None
