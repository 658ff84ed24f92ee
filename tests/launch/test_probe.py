from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nemo_gym.launch import probe
from nemo_gym.launch.probe import Answer, Figures
from nemo_gym.launch.sockets import hold


@asynccontextmanager
async def answering(raw: bytes, seen: list[bytes] | None = None) -> AsyncIterator[str]:
    """The URL of a server that answers everything with `raw` and hangs up."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        writer.write(raw)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_answer_with_a_length_is_read_to_it() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokrest") as url:
        assert await probe.get(url, "/", timeout_s=30) == Answer(200, b"ok")


async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async with answering(b"HTTP/1.0 404 Not Found\r\n\r\nnothing here") as url:
        assert await probe.get(url, "/", timeout_s=30) == Answer(404, b"nothing here")


@pytest.mark.parametrize(
    "raw",
    [b"", b"HTTP/1.1 200", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"],
)
async def test_half_an_answer_is_a_broken_connection(raw: bytes) -> None:
    async with answering(raw) as url:
        with pytest.raises(ConnectionError):
            await probe.get(url, "/", timeout_s=30)


async def test_silence_is_a_timeout() -> None:
    held = hold("127.0.0.1", 0, holder_of="nobody")
    with pytest.raises(TimeoutError):
        await probe.get(held.url, "/", timeout_s=0.05)
    held.close()


async def test_figures_are_asked_for_with_the_token() -> None:
    seen: list[bytes] = []
    body = b'{"requests": 7, "errors": 1, "in_flight": 2, "more": 0}'
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n" + body, seen) as url:
        assert await probe.get_figures(url, "secret", timeout_s=30) == Figures(7, 1, 2)
    assert seen[0].startswith(b"GET /_ng/stats HTTP/1.1\r\n")
    assert b"\r\nx-ng-token: secret\r\n" in seen[0]


@pytest.mark.parametrize(
    "raw", [b"HTTP/1.1 404 Not Found\r\n\r\n{}", b"HTTP/1.1 200 OK\r\n\r\n[1]", b"nonsense"]
)
async def test_a_server_without_figures_has_none(raw: bytes) -> None:
    async with answering(raw) as url:
        assert await probe.get_figures(url, "secret", timeout_s=30) is None
