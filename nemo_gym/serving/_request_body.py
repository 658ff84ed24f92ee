"""The body of a request, which is read whole before its handler begins: half a request has no effect."""

from __future__ import annotations

from starlette.types import Message, Receive


async def read_body(receive: Receive) -> bytes | None:
    """The whole body of a request; None where the client left before all of it had arrived."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False):
        return body
    chunks = [body]
    while message["type"] == "http.request" and message.get("more_body", False):
        message = await receive()
        chunks.append(message.get("body", b""))
    return None if message["type"] == "http.disconnect" else b"".join(chunks)


def replayed(body: bytes, receive: Receive) -> Receive:
    """An ASGI `receive` that gives `body` in one message, and then the messages of `receive`."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return unread.pop() if unread else await receive()

    return receive_again
