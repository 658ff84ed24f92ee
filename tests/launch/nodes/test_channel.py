"""Messages between the launcher and a node host: only the other end of this run can have written them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.channel import LEASE_S, LOST_AFTER_S, Channel
from tests.waiting import until


@asynccontextmanager
async def channels(
    head_token: str = "token", node_token: str = "token"
) -> AsyncIterator[tuple[Channel, Channel]]:
    accepted: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result(await Channel.open(reader, writer, head_token, "head"))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    node = await Channel.open(reader, writer, node_token, "node")
    head = await accepted
    try:
        yield head, node
    finally:
        for end in (node, head):
            end.close()
            await asyncio.gather(end._writer.wait_closed(), return_exceptions=True)
        server.close()


async def test_messages_arrive_in_order_in_both_directions() -> None:
    async with channels() as (head, node):
        for number in range(3):
            head.send({"number": number})
            node.send({"text": "ä" * 100_000, "number": number})
        assert [(await node.receive())["number"] for _ in range(3)] == [0, 1, 2]
        assert [(await head.receive())["number"] for _ in range(3)] == [0, 1, 2]
        assert head.peer_host == node.own_host == "127.0.0.1"


async def test_another_token_is_refused() -> None:
    async with channels(node_token="another") as (head, node):
        node.send({"kind": "hello"})
        with pytest.raises(LaunchError, match="not written by a node of this run"):
            await head.receive()


async def test_a_repeated_message_is_refused() -> None:
    async with channels() as (head, node):
        written: list[bytes] = []
        write = node._writer.write

        def write_and_keep(data: Any) -> None:
            written.append(bytes(data))
            write(data)

        node._writer.write = write_and_keep  # type: ignore[method-assign]
        node.send({"kind": "spawn"})
        write(written[0])
        assert await head.receive() == {"kind": "spawn"}
        with pytest.raises(LaunchError, match="not written by"):
            await head.receive()


async def test_a_message_cannot_be_sent_back() -> None:
    async with channels() as (head, node):
        head.send({"kind": "signal"})
        echoed = await node._reader.read(1000)
        node._writer.write(echoed)
        with pytest.raises(LaunchError, match="not written by"):
            await head.receive()


async def test_the_token_is_not_sent() -> None:
    received = bytearray()
    nonce = b"n" * 16

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(nonce)
        with contextlib.suppress(ConnectionResetError):
            while data := await reader.read(1000):
                received.extend(data)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    node = await Channel.open(reader, writer, "a-token-of-this-run", "node")
    node.send({"kind": "hello"})
    await until(lambda: json.dumps({"kind": "hello"}).encode() in received)
    node.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    server.close()
    assert b"a-token-of-this-run" not in received


async def test_the_end_of_the_connection_is_reported() -> None:
    async with channels() as (head, node):
        node.close()
        with pytest.raises(EOFError):
            await head.receive()


async def test_a_message_of_an_absurd_length_is_refused() -> None:
    async with channels() as (head, node):
        node._writer.write(b"\xff" * 100)
        with pytest.raises(LaunchError, match="not written by"):
            await head.receive()


def test_a_node_ends_its_servers_before_it_is_taken_for_lost() -> None:
    from nemo_gym.processes.fork_server import _EXIT_GRACE_S

    assert LEASE_S + _EXIT_GRACE_S < LOST_AFTER_S
