"""The body of an ASGI request. It is read completely before the handler starts: a partial request has no effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class WholeBody:
    """An ASGI `receive` that returns a known body in one message, and then the messages of `rest`.

    `value` is the JSON object in the body if it has been parsed. Its readers do not change it.
    """

    __slots__ = ("_rest", "_unread", "body", "value")

    def __init__(self, body: bytes, rest: Receive, value: Mapping[str, Any] | None = None) -> None:
        self.body = body
        self.value = value
        self._rest = rest
        self._unread = True

    async def __call__(self) -> Message:
        if self._unread:
            self._unread = False
            return {"type": "http.request", "body": self.body, "more_body": False}
        return await self._rest()


async def read_body(receive: Receive) -> bytes | None:
    """Return the complete body of a request; None if the client disconnected before its end."""
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
