"""The in-memory transport: apps get the scope of a socket, and cancelling a call cancels its handler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nemo_gym.failures import TransportError
from nemo_gym.transport import Call, InMemoryTransport
from nemo_gym.transport.memory import collect_reply, wait_until_cancelled
from nemo_gym.transport.request_body import WholeBody, read_body

URL = "http://env:1"


async def answer_in_parts(scope: Any, receive: Any, send: Any) -> None:
    body = await read_body(receive)
    assert body is not None
    await send({"type": "http.response.start", "status": 201, "headers": [(b"x-path", scope["raw_path"])]})
    await send({"type": "http.response.body", "body": scope["path"].encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b" " + scope["query_string"] + b" " + body})


async def test_an_app_gets_path_query_headers_and_body() -> None:
    transport = InMemoryTransport({URL: answer_in_parts})
    reply = await transport.send(URL, Call("POST", "/a%20b?c=1", b"body"))
    assert (reply.status, reply.body) == (201, b"/a b c=1 body")
    assert reply.headers["X-Path"] == "/a%20b"


async def test_header_names_arrive_in_lower_case_with_the_host() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    await InMemoryTransport({URL: app}).send(URL, Call("GET", "/", headers={"X-Ng-Session": "s"}))
    assert seen == [(b"x-ng-session", b"s"), (b"host", b"env:1")]


async def test_an_unknown_url_is_a_refused_connection() -> None:
    transport = InMemoryTransport({URL: answer_in_parts})
    await transport.close()
    with pytest.raises(TransportError) as caught:
        await transport.send(URL, Call("GET", "/"))
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("connect_refused", True)


async def test_an_app_that_returns_early_is_a_broken_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})

    with pytest.raises(TransportError) as caught:
        await InMemoryTransport({URL: app}).send(URL, Call("GET", "/"))
    assert caught.value.failure.code == "disconnected"


async def test_a_cancelled_call_cancels_its_handler() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        started.set()
        try:
            await receive()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    calling = asyncio.create_task(InMemoryTransport({URL: app}).send(URL, Call("GET", "/")))
    await started.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert cancelled.is_set()


async def test_the_reply_of_a_handler_is_collected() -> None:
    scope = {"raw_path": b"/a", "path": "/a", "query_string": b""}
    reply = await collect_reply(answer_in_parts, scope, WholeBody(b"x", wait_until_cancelled))
    assert (reply.status, reply.body) == (201, b"/a  x")
