"""Calls within a machine take Unix sockets where the called server has one, and ports everywhere else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest

from nemo_gym.transport import Call, HttpTransport, local_sockets
from nemo_gym.transport.moving_caller import build_caller

pytestmark = pytest.mark.skipif(not local_sockets.IS_SUPPORTED, reason="abstract names exist on Linux only")


@asynccontextmanager
async def answering(listener: socket.socket, text: bytes) -> AsyncIterator[None]:
    """Answer every request at `listener` with `text`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))

    start = asyncio.start_unix_server if listener.family == socket.AF_UNIX else asyncio.start_server
    async with await start(answer, sock=listener):
        yield


async def answer_of(url: str, run: str | None) -> bytes:
    transport = HttpTransport()
    transport.call_locally(run)
    try:
        return (await transport.send(url, Call("GET", "/"))).body
    finally:
        await transport.close()


async def test_a_call_takes_the_socket_of_its_run_and_otherwise_the_port() -> None:
    run, port = local_sockets.new_run(), socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{port.getsockname()[1]}"
    local = local_sockets.listen(run, url, 16)
    assert local is not None
    async with answering(port, b"port"):
        async with answering(local, b"local"):
            assert await answer_of(url, run) == b"local"
            assert await answer_of(url, local_sockets.new_run()) == b"port"
            assert await answer_of(url, None) == b"port"
        assert await answer_of(url, run) == b"port", "nothing listens on the socket any more"


async def test_a_call_takes_the_port_while_the_backlog_of_the_socket_is_full() -> None:
    run, port = local_sockets.new_run(), socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{port.getsockname()[1]}"
    local = local_sockets.listen(run, url, 0)
    assert local is not None
    with closing(local):
        waiting = []
        while (connection := local_sockets.connect(run, url)) is not None:
            waiting.append(connection)
        async with answering(port, b"port"):
            assert await answer_of(url, run) == b"port"
        for connection in waiting:
            connection.close()
    assert waiting


def test_the_configuration_of_a_gym_names_its_sockets() -> None:
    transport = HttpTransport()
    build_caller({"_ng_local_sockets": "run"}, transport, None)
    assert transport.run == "run"
