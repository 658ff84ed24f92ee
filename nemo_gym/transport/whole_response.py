"""A complete ASGI response in one call, as `request_body` has a complete request body.

Transports and the gym's middleware give their `send` the method `whole`. The `send` of any other middleware lacks it
and gets ASGI's two messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from nemo_gym.transport.calls import Reply
from nemo_gym.transport.request_body import Message

RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]
STATUSES_WITHOUT_BODY = frozenset({204, 304})


def send_response(
    send: Callable[[Message], Awaitable[None]], status: int, headers: RawHeaders, body: bytes
) -> Awaitable[None]:
    """Send a complete response. Its Content-Length is added to `headers`."""
    whole: Callable[[int, RawHeaders, bytes], Awaitable[None]] | None = getattr(send, "whole", None)
    return send_messages(send, status, headers, body) if whole is None else whole(status, headers, body)


def send_reply(send: Callable[[Message], Awaitable[None]], reply: Reply) -> Awaitable[None]:
    """Send the reply of another handler."""
    headers = [(name, value) for name, value in reply.raw_headers if name.lower() != b"content-length"]
    return send_response(send, reply.status, headers, reply.body)


async def send_messages(
    send: Callable[[Message], Awaitable[None]], status: int, headers: RawHeaders, body: bytes
) -> None:
    if status not in STATUSES_WITHOUT_BODY:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
