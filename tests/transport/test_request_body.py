"""A request's body is read completely, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.transport.request_body import Message, Receive, WholeBody, read_body


def receiving(*messages: dict[str, Any]) -> Receive:
    left = iter(messages)

    async def receive() -> Message:
        return next(left)

    return receive


def part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


DISCONNECT = {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("messages", "body"),
    [
        ([part(b"whole")], b"whole"),
        ([{"type": "http.request"}], b""),
        ([part(b"in ", more=True), part(b"", more=True), part(b"parts")], b"in parts"),
        ([DISCONNECT], None),
        ([part(b"half", more=True), DISCONNECT], None),
    ],
)
async def test_a_partial_body_is_none(messages: list[dict[str, Any]], body: bytes | None) -> None:
    assert await read_body(receiving(*messages)) == body


async def test_a_known_body_is_received_once_and_then_the_rest() -> None:
    body = WholeBody(b"known", receiving(DISCONNECT))
    assert await read_body(body) == b"known"
    assert await body() == {"type": "http.request", "body": b"known", "more_body": False}
    assert await body() == DISCONNECT
