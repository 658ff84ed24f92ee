"""A single call: its reply, its timeout, and the same from synchronous code."""

from __future__ import annotations

import asyncio

import pytest

from nemo_gym.failures import TransportError
from nemo_gym.transport import Call, call_once_blocking
from nemo_gym.transport._single_call import call_once
from tests.transport.loopback import answering

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_a_call_returns_the_reply() -> None:
    async with answering([OK], stays_open=True) as url:
        reply = await call_once(url, Call("GET", "/"), timeout_s=30)
    assert (reply.status, reply.body) == (200, b"ok")


async def test_an_incomplete_reply_is_a_timeout_that_names_the_server() -> None:
    async with answering([OK[:-1]], stays_open=True) as url:
        with pytest.raises(TransportError, match=r"within 0\.2 s") as caught:
            await call_once(url, Call("GET", "/"), timeout_s=0.2)
    assert (caught.value.failure.code, caught.value.failure.peer) == ("answer_timeout", url)


async def test_synchronous_code_can_call_too() -> None:
    async with answering([OK], stays_open=True) as url:
        reply = await asyncio.to_thread(call_once_blocking, url, Call("GET", "/"), timeout_s=30)
    assert reply.body == b"ok"


def test_an_error_passes_through_to_synchronous_code() -> None:
    with pytest.raises(TransportError) as caught:
        call_once_blocking("http://127.0.0.1:1", Call("GET", "/"), timeout_s=30)
    assert caught.value.failure.code == "connect_refused"
