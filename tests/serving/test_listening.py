"""Servers of the gym over sockets, called with raw bytes and with several clients."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import uvloop
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, PrivateAttr

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
from nemo_gym.serving.listening import accepting_all
from nemo_gym.testing.serving import serving
from nemo_gym.tls import context_trusting, server_context
from nemo_gym.transport import Call, HttpTransport
from tests.certificates import Authority
from tests.waiting import TIMEOUT_S

JSON = {"content-type": "application/json"}
VERIFY = orjson.dumps(
    {
        "responses_create_params": {"input": "x"},
        "response": {
            "id": "r",
            "created_at": 0,
            "model": "m",
            "object": "response",
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        },
    }
)


class Text(BaseModel):
    text: str = ""


class Odd(SimpleResourcesServer):
    """Tools that answer in every way."""

    started: int = 0
    left: int = 0
    _begun: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)
    _ended: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        for name in (
            "echo",
            "headers",
            "stream",
            "sized_stream",
            "half_a_stream",
            "split_header",
            "empty",
            "waits",
        ):
            app.post(f"/{name}")(getattr(self, name))
        app.post("/of/{name}")(self.of_name)
        app.get("/where/are you")(self.spaced)
        return app

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        try:
            self._begun.set()
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.left += 1
            self._ended.set()
            raise
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)

    async def echo(self, body: Text) -> Text:
        return body

    async def headers(self, request: Request) -> dict[str, Any]:
        given = {name: request.headers.getlist(name) for name in request.headers}
        return {**given, "query": str(request.query_params), "path": request.url.path}

    async def stream(self) -> StreamingResponse:
        return StreamingResponse(_parts("one,", "two,", "three"), media_type="text/plain")

    async def sized_stream(self) -> Response:
        return StreamingResponse(_parts("12", "34"), headers={"content-length": "4"})

    async def half_a_stream(self) -> Response:
        return StreamingResponse(_broken("begun"))

    async def split_header(self) -> Response:
        return Response("x", headers={"x-name": "a\r\nset-cookie: stolen=1"})

    async def empty(self) -> Response:
        return Response(status_code=204)

    async def of_name(self, name: str) -> dict[str, str]:
        return {"name": name}

    async def spaced(self) -> dict[str, str]:
        return {"found": "yes"}

    async def waits(self) -> dict[str, int]:
        self.started += 1
        self._begun.set()
        await asyncio.sleep(0.3)
        self._ended.set()
        return {"waited": 1}


async def _parts(*parts: str) -> AsyncIterator[str]:
    for part in parts:
        await asyncio.sleep(0)
        yield part


async def _broken(part: str) -> AsyncIterator[str]:
    yield part
    raise RuntimeError("no more")


@asynccontextmanager
async def odd() -> AsyncIterator[tuple[Odd, str, int]]:
    server = Odd.standalone(name="odd")
    assert isinstance(server, Odd)
    async with serving(server) as url:
        yield server, url, int(url.rpartition(":")[2])


async def said(port: int, *pieces: bytes, end: bool = False) -> bytes:
    """Send bytes in pieces and return the response until the server closes or stops sending."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.01)
    if end:
        writer.write_eof()
    answer = b""
    while True:
        reading = asyncio.ensure_future(reader.read(65536))
        await asyncio.wait([reading], timeout=0.5 if answer else TIMEOUT_S)
        if not reading.done():
            reading.cancel()
            answer += b"<open>"
            break
        if not (chunk := reading.result()):
            break
        answer += chunk
    writer.close()
    return answer


def post(path: str, body: bytes = b"{}", *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_a_whole_answer_keeps_the_connection_open() -> None:
    async with odd() as (_, _, port):
        answer = await said(port, post("/echo", b'{"text":"hi"}'), post("/echo", b'{"text":"ho"}'))
        assert answer.count(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n") == 2
        assert answer.count(b"\r\ncontent-length: 13\r\n") == 2
        assert answer.index(b'{"text":"hi"}') < answer.index(b'{"text":"ho"}')
        assert answer.endswith(b"<open>")


@pytest.mark.parametrize("size", [1, 7, 64])
async def test_a_request_may_arrive_in_any_pieces(size: int) -> None:
    whole = post("/echo", b'{"text":"hi"}')
    async with odd() as (_, _, port):
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        assert b'{"text":"hi"}' in await said(port, *pieces)


async def test_chunked_bodies_and_large_ones_arrive_whole() -> None:
    large = orjson.dumps({"text": "x" * 3_000_000})
    async with odd() as (_, url, port):
        head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunked = await said(port, head, b'8\r\n{"text":\r\n', b'5\r\n"hi"}\r\n0\r\n\r\n')
        assert b'{"text":"hi"}' in chunked
        transport = HttpTransport()
        reply = await transport.send(url, Call("POST", "/echo", large, dict(JSON)))
        assert reply.body == large
        await transport.close()


async def test_headers_query_and_path_reach_the_endpoint() -> None:
    async with odd() as (_, _, port):
        answer = await said(
            port, post("/he%61ders?a=1&b=%20", b"", "X-One: 1", "Cookie: a=1", "X-One: 2", "Cookie: b=2")
        )
        told = orjson.loads(answer.split(b"\r\n\r\n")[1].removesuffix(b"<open>"))
        assert told["x-one"] == ["1", "2"]
        assert told["cookie"] == ["a=1", "b=2"]
        assert (told["query"], told["path"]) == ("a=1&b=+", "/headers")
        assert b"yes" in await said(port, b"GET /where/are%20you HTTP/1.1\r\nHost: x\r\n\r\n")


async def test_one_connection_serves_direct_routes_and_others() -> None:
    async with odd() as (_, _, port):
        answer = await said(port, post("/of/me"), post("/echo", b'{"text":"hi"}'))
        assert b'{"name":"me"}' in answer
        assert b'{"text":"hi"}' in answer, "the connection serves plain routes too"
        assert b'{"name":"me"}' in await said(port, post("/echo"), post("/of/me")), "also later"
        assert b"404" in await said(port, post("/nowhere"))
        assert b"405" in await said(port, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")


async def test_old_careful_and_broken_clients() -> None:
    async with odd() as (_, _, port):
        old = await said(port, post("/echo", b'{"text":"hi"}', version="1.0"))
        assert b'{"text":"hi"}' in old
        assert not old.endswith(b"<open>")
        careful = post("/echo", b'{"text":"hi"}', "Expect: 100-continue")
        head, body = careful.split(b"\r\n\r\n")
        answer = await said(port, head + b"\r\n\r\n", body)
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n")
        assert b'{"text":"hi"}' in answer
        assert (await said(port, b"\x16\x03\x01 not HTTP\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        closing = await said(port, post("/echo", b"{}", "Connection: close"))
        assert b"connection: close\r\n" in closing
        assert not closing.endswith(b"<open>")


async def test_a_body_that_breaks_off_is_no_request() -> None:
    async with odd() as (server, _, port):
        assert await said(port, post("/waits")[:-1], end=True) == b""
        head = b"POST /waits HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (await said(port, head, b"zz\r\n")).startswith(b"HTTP/1.1 400 ")
        assert server.started == 0


async def test_a_request_that_is_sent_before_the_last_response_is_answered_after_it() -> None:
    async with odd() as (server, _, port):
        answer = await said(port, post("/waits") + post("/echo", b'{"text":"hi"}'))
        assert answer.index(b'{"waited":1}') < answer.index(b'{"text":"hi"}')
        assert server.started == 1


async def test_streams_go_out_in_chunks_and_what_breaks_is_seen_to_be_broken() -> None:
    async with odd() as (server, url, port):
        streamed = await said(port, post("/stream"), post("/echo", b'{"text":"next"}'))
        assert b"transfer-encoding: chunked\r\n" in streamed
        assert b"4\r\none,\r\n4\r\ntwo,\r\n5\r\nthree\r\n0\r\n\r\n" in streamed
        assert b'{"text":"next"}' in streamed
        assert (await said(port, post("/sized_stream"))).split(b"\r\n\r\n")[1] == b"1234<open>"
        async with aiohttp.ClientSession() as client:
            async with client.post(f"{url}/stream") as answer:
                assert await answer.text() == "one,two,three"
            with pytest.raises(aiohttp.ClientPayloadError):
                async with client.post(f"{url}/half_a_stream") as answer:
                    await answer.read()
        assert server.middleware.stats.in_flight == 0


async def test_no_header_says_more_than_it_should() -> None:
    async with odd() as (_, _, port):
        assert b"stolen" not in await said(port, post("/split_header"))
        empty = await said(port, post("/empty"))
        assert empty.startswith(b"HTTP/1.1 204 No Content\r\n")
        assert b"content-length" not in empty


async def test_a_caller_that_leaves_ends_a_watched_handler_and_no_other() -> None:
    async with odd() as (server, _, port):
        for path, body in (("/verify", VERIFY), ("/waits", b"{}")):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(post(path, body))
            async with asyncio.timeout(30):
                await server._begun.wait()
                writer.close()
                await server._ended.wait()
            server._begun.clear()
            server._ended.clear()
        assert server.left == 1
        assert server.middleware.stats.cancelled == 1, "/waits was not cancelled"


@pytest.mark.parametrize(
    "pieces",
    [
        [b"\x16\x03\x01 not HTTP\r\n\r\n"],
        [b"POST /waits HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"zz\r\n"],
    ],
)
async def test_bytes_that_are_not_http_get_the_form_of_every_error(pieces: list[bytes]) -> None:
    async with odd() as (_, _, port):
        answer = await said(port, *pieces)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n")
    assert orjson.loads(body)["error"]["code"] == "invalid_http"


def test_all_connections_that_wait_are_accepted_at_once() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        made = runner.run(_steps_until_accepted(100))
    assert max(made) < 50, "and not one in each step of the loop"


async def _steps_until_accepted(count: int) -> list[int]:
    """The step of the loop at which each of `count` waiting connections was accepted."""
    made: list[int] = []

    class Noting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(steps)
            transport.close()

    loop, steps = asyncio.get_running_loop(), 0
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:
        clients = [socket.create_connection(listening.getsockname()) for _ in range(count)]
        server = await loop.create_server(Noting, sock=listening)
        with accepting_all(listening, Noting, None):
            while len(made) < count:
                steps += 1
                await asyncio.sleep(0)
        server.close()
        for client in clients:
            client.close()
    return made


def test_a_server_with_tls_answers_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A call without TLS, one of an old version, and a connection that is cut within the handshake."""
    authority = Authority(tmp_path)
    tls, trusted = server_context({"tls": authority.issue()}), context_trusting(str(authority.ca))
    assert trusted is not None
    old = ssl.create_default_context(cafile=authority.ca)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1

    async def call() -> None:
        async with serving(Odd.standalone(), tls) as url:
            host, port = "127.0.0.1", int(url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert b"HTTP" not in await reader.read()
            writer.close()
            with pytest.raises(ssl.SSLError):
                await asyncio.open_connection(host, port, ssl=old)
            _, writer = await asyncio.open_connection(host, port)
            writer.write(b"\x16\x03\x01")
            writer.close()
            reader, writer = await asyncio.open_connection(host, port, ssl=trusted)
            writer.write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            assert b'{"status":"ok"}' in await reader.read()
            writer.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(call())
    assert not caplog.records, "strangers do not fill the log"
