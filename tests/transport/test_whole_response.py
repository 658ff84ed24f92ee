"""A complete response is one call where `send` has `whole`, and ASGI's two messages elsewhere."""

from __future__ import annotations

from typing import Any

from multidict import CIMultiDict

from nemo_gym.transport import Reply
from nemo_gym.transport.whole_response import RawHeaders, send_reply, send_response

HEADERS = [(b"x-name", b"1")]


class Sender:
    """A `send` that records whole responses."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def __call__(self, message: Any) -> None:
        self.sent.append(message)

    async def whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        self.sent.append((status, headers, body))


async def test_a_sender_of_the_gym_gets_one_call() -> None:
    sender = Sender()
    await send_response(sender, 201, HEADERS, b"{}")
    assert sender.sent == [(201, HEADERS, b"{}")]


async def test_any_other_sender_gets_two_messages() -> None:
    sender = Sender()

    async def send(message: Any) -> None:
        await sender(message)

    await send_response(send, 201, HEADERS, b"{}")
    start, body = sender.sent
    assert (start["type"], start["status"], start["headers"]) == (
        "http.response.start",
        201,
        [*HEADERS, (b"content-length", b"2")],
    )
    assert (body["type"], body["body"]) == ("http.response.body", b"{}")


async def test_the_reply_of_another_handler_gets_a_length_of_its_own() -> None:
    sender = Sender()
    await send_reply(sender, Reply(201, [(b"X-Name", b"1"), (b"Content-Length", b"99")], b"{}"))
    ((status, headers, body),) = sender.sent
    assert (status, [(name.lower(), value) for name, value in headers], body) == (
        201,
        [(b"x-name", b"1")],
        b"{}",
    )


async def test_headers_of_a_reply_may_be_of_any_form() -> None:
    for headers in ([[b"X-Name", b"1"]], b"X-Name: 1\r\n", CIMultiDict({"X-Name": "1"})):
        sender = Sender()
        await send_reply(sender, Reply(200, headers, b""))  # type: ignore[arg-type]
        assert sender.sent == [(200, [(b"X-Name", b"1")], b"")]
