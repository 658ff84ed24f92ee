"""The aiohttp client: one pooled session, no cookies of its own, and the codes of its errors."""

from __future__ import annotations

import asyncio

import pytest

from nemo_gym.failures import TransportError
from nemo_gym.transport import Call
from nemo_gym.transport._full_http import FullHttp
from nemo_gym.transport.server_client import ServerReply
from tests.transport.loopback import read_request, serve


async def test_calls_share_one_connection_and_no_cookie_is_kept() -> None:
    seen: list[bytes] = []
    connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while True:
                seen.append((await read_request(reader)).lower())
                writer.write(b"HTTP/1.1 200 OK\r\nset-cookie: a=1\r\ncontent-length: 2\r\n\r\n{}")
        except asyncio.IncompleteReadError:
            return

    client = FullHttp()
    async with serve(handle) as url:
        for _ in range(2):
            reply = await client.send(url, Call("POST", "/x", b"{}"))
            assert (reply.status, ServerReply(reply, "GET", "/").cookies["a"].value) == (200, "1")
        await client.close()
    assert connections == 1
    assert not any(b"cookie:" in request or b"user-agent:" in request for request in seen)


async def test_a_closed_client_opens_a_new_session() -> None:
    client = FullHttp()
    first = client.session()
    assert client.session() is first
    await client.close()
    assert first.closed
    assert client.session() is not first
    await client.close()


async def test_a_url_without_a_host_is_invalid() -> None:
    client = FullHttp()
    with pytest.raises(TransportError) as caught:
        await client.send("https://", Call("GET", "/"))
    assert caught.value.failure.code == "invalid_url"
    await client.close()
