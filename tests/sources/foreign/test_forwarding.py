"""The way to one address: bytes in both directions, and the reason if there is no way."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nemo_gym.sources.foreign.forwarding import SOCKET_VARIABLE, Forwarding
from nemo_gym.sources.foreign.process import HostProgram

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


@asynccontextmanager
async def open_way(handle: Handler) -> AsyncIterator[Forwarding]:
    """Forward to a server of this test."""
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    forwarding = await Forwarding.open(f"http://127.0.0.1:{port}")
    try:
        yield forwarding
    finally:
        await forwarding.close()
        server.close()


async def test_bytes_go_both_ways_until_the_server_ends() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper() * 100_000)
        writer.close()

    async with open_way(shout) as forwarding:
        reader, writer = await asyncio.open_unix_connection(forwarding.socket)
        writer.write(b"hello\n")
        assert await reader.read() == b"HELLO\n" * 100_000
        writer.close()


async def test_the_servers_connection_ends_with_the_hosts() -> None:
    ended = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    async with open_way(wait) as forwarding:
        _, writer = await asyncio.open_unix_connection(forwarding.socket)
        writer.write(b"hello")
        await writer.drain()
        writer.close()
        await asyncio.wait_for(ended.wait(), 30)


async def test_an_address_without_a_server_is_told_as_http() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    forwarding = await Forwarding.open(f"http://127.0.0.1:{port}")
    try:
        reader, writer = await asyncio.open_unix_connection(forwarding.socket)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        told = await reader.read()
        writer.close()
    finally:
        await forwarding.close()
    assert told.startswith(b"HTTP/1.1 502 ")
    assert f"http://127.0.0.1:{port} cannot be reached".encode() in told


async def test_a_program_gets_the_socket_which_is_gone_at_the_end() -> None:
    forwarding = await Forwarding.open("https://far.example")
    lent = forwarding.lend(HostProgram("ors", "x", Path("python"), variables={"A": "1"}))
    assert lent.variables == {"A": "1", SOCKET_VARIABLE: str(forwarding.socket)}
    assert lent.readable == (forwarding.socket.parent,)
    assert stat.S_IMODE(forwarding.socket.stat().st_mode) == 0o666
    await forwarding.close()
    await forwarding.close()
    assert not forwarding.socket.parent.exists()
