"""The HTTP transport against real sockets on loopback."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.failures import TransportError
from nemo_gym.testing.serving import serving
from nemo_gym.tls import server_context
from nemo_gym.transport import Call, HttpTransport, Reply
from nemo_gym.transport.http import most_calls_in_flight
from nemo_gym.transport.server_client import ServerReply
from tests.certificates import Authority
from tests.transport.loopback import read_request, serve


class AiohttpOnly(HttpTransport):
    """The client for `https://`, tested over plain HTTP."""

    async def send(self, base_url: str, call: Call) -> Reply:
        scheme_is_not_plain = base_url.replace("http://", "HTTP://", 1)
        return await super().send(scheme_is_not_plain, call)


@pytest.fixture(params=[HttpTransport, AiohttpOnly])
async def transport(request: pytest.FixtureRequest) -> AsyncIterator[HttpTransport]:
    transport: HttpTransport = request.param()
    yield transport
    await transport.close()


async def test_a_call_arrives_and_its_answer_comes_back_whole(transport: HttpTransport) -> None:
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(
            b"HTTP/1.1 201 Created\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 5\r\n\r\n12345"
        )
        await writer.drain()

    async with serve(handle) as url:
        reply = await transport.send(url, Call("POST", "/x?y=1", b"{}", {"x-ng-session": "s"}))
    assert seen[0].startswith(b"POST /x?y=1 HTTP/1.1\r\n")
    assert b"x-ng-session: s" in seen[0]
    assert (reply.status, reply.body) == (201, b"12345")
    cookies = ServerReply(reply, "GET", "/").cookies
    assert {name: morsel.value for name, morsel in cookies.items()} == {
        "a": "1",
        "b": "2",
    }


async def test_a_closed_port_is_a_refusal_before_delivery(transport: HttpTransport) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(TransportError) as caught:
            await transport.send(url, Call("GET", "/"))
    assert caught.value.failure.code == "connect_refused"
    assert caught.value.failure.retryable
    assert url in caught.value.failure.message.lower()


async def test_a_connection_that_breaks_before_the_answer_is_ambiguous(transport: HttpTransport) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with serve(handle) as url:
        with pytest.raises(TransportError) as caught:
            await transport.send(url, Call("POST", "/", b"{}"))
    assert caught.value.failure.code == "disconnected"


async def test_a_body_shorter_than_announced_is_ambiguous(transport: HttpTransport) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
        await writer.drain()

    async with serve(handle) as url:
        with pytest.raises(TransportError) as caught:
            await transport.send(url, Call("GET", "/"))
    assert caught.value.failure.code == "disconnected"


async def test_an_answer_that_is_not_http_is_named(transport: HttpTransport) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"hello\r\n\r\n")
        await writer.drain()

    async with serve(handle) as url:
        with pytest.raises(TransportError) as caught:
            await transport.send(url, Call("GET", "/"))
    assert caught.value.failure.code == "malformed_answer"


async def test_a_url_that_is_none_is_not_tried_again(transport: HttpTransport) -> None:
    with pytest.raises(TransportError) as caught:
        await transport.send("http://", Call("GET", "/"))
    assert caught.value.failure.code == "invalid_url"
    assert not caught.value.failure.retryable


async def test_redirects_are_not_followed(transport: HttpTransport) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    async with serve(handle) as url:
        assert (await transport.send(url, Call("GET", "/"))).status == 302


async def count_in_flight(calls: int, transport: HttpTransport) -> int:
    """The most calls that a server which takes a moment saw at once."""
    in_flight = peak = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal in_flight, peak
        await read_request(reader)
        in_flight += 1
        peak = max(peak, in_flight)
        await asyncio.sleep(0.01)
        in_flight -= 1
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()

    async with serve(handle) as url:
        replies = await asyncio.gather(*(transport.send(url, Call("GET", "/")) for _ in range(calls)))
    assert [reply.status for reply in replies] == [200] * calls
    return peak


async def test_calls_beyond_the_admission_wait_and_the_numbers_are_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport = HttpTransport(in_flight=5)
    assert await count_in_flight(40, transport) == 5
    await transport.close()
    (message,) = caplog.messages
    assert message.startswith("5 calls are in flight, the cap for a limit of ")


async def test_a_call_that_is_cancelled_while_it_waits_gives_its_place_up() -> None:
    transport = HttpTransport(in_flight=1)
    release = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()

    async with serve(handle) as url:
        first, second, third = (asyncio.create_task(transport.send(url, Call("GET", "/"))) for _ in range(3))
        await asyncio.sleep(0.01)
        second.cancel()
        release.set()
        assert (await first).status == (await third).status == 200
    await transport.close()


def test_a_process_that_may_open_few_files_makes_more_calls_than_that() -> None:
    limited = (
        "import asyncio, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128));"
        "from nemo_gym.transport import HttpTransport; from tests.transport.test_http import count_in_flight;"
        "print(asyncio.run(count_in_flight(300, HttpTransport())), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited],
        cwd=PARENT_DIR,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    peak, files = map(int, done.stdout.split())
    assert files == 128, "the soft limit was raised to the hard one"
    assert peak == most_calls_in_flight(128)
    assert "a limit of 128 open files" in done.stderr


@pytest.mark.parametrize("files", [64, 256, 1024, 20_000, 1 << 20])
def test_a_server_and_its_callers_fit_into_the_files(files: int) -> None:
    assert 16 <= most_calls_in_flight(files) <= files // 2


async def test_servers_of_a_gym_with_tls_are_called_by_the_lean_client_and_others_by_aiohttp(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["scheme"].encode()})

    async with serving(app, server_context({"tls": authority.issue()})) as url:
        to_gym, to_others = HttpTransport(ca=str(authority.ca)), HttpTransport()
        assert (await to_gym.send(url, Call("GET", "/"))).body == b"https"
        assert to_gym._full is None
        with pytest.raises(TransportError) as caught:
            await to_others.send(url, Call("GET", "/"))
        assert caught.value.failure.code == "untrusted", "engines have the authorities of this machine"
        async with to_gym.session().get(url) as answer:  # what environments use for calls of their own
            assert await answer.read() == b"https"
        await to_gym.close()
        await to_others.close()
