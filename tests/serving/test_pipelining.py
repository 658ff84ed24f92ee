"""Pipelined requests on one connection are never mixed: each is answered by its own content."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.serving.connections import GymHttpProtocol, ListenerState
from nemo_gym.serving.listening import Listener
from nemo_gym.serving.pipelining import HeldTotal, Unparsed, find_piece_end
from nemo_gym.testing.serving import serving
from nemo_gym.transport.whole_response import send_response
from tests.waiting import TIMEOUT_S, until

TOKEN = "the-run-token"
Answers = list[tuple[int, dict[str, Any]]]


class Mirror(SimpleResourcesServer):
    """Has a route that answers what it was sent, once it may."""

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/mirror")(self.mirror)
        return app

    async def mirror(self, request: Request) -> dict[str, Any]:
        return {"name": request.headers.get("x-name"), "body": (await request.body()).decode()}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        raise NotImplementedError


async def bare_mirror(scope: Any, receive: Any, send: Any) -> None:
    """The same without the gym."""
    message = await receive()
    body = message["body"]
    while message["more_body"]:
        message = await receive()
        body += message["body"]
    name = next((value.decode() for key, value in scope["headers"] if key == b"x-name"), None)
    answer = orjson.dumps({"name": name, "body": body.decode()})
    headers = [(b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def slowly(app: Any, proceed: asyncio.Event) -> Any:
    """`app`, whose handlers begin when `proceed` is set."""

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await proceed.wait()
        await app(scope, receive, send)

    return slow


class Connection:
    """A client's connection to a server whose handlers wait to be let go."""

    def __init__(self, port: int, proceed: asyncio.Event) -> None:
        self._port = port
        self._proceed = proceed

    async def ask(self, first: bytes, second: bytes, cut: int, *, waits_for_answer: bool) -> Answers:
        """The answers to two requests; the second one's bytes from `cut` on come before or after the first answer."""
        self._proceed.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(first + second[:cut])
            await writer.drain()
            if not waits_for_answer:
                writer.write(second[cut:])
                await writer.drain()
            self._proceed.set()
            async with asyncio.timeout(TIMEOUT_S):
                answers = [await _answer_from(reader)]
                if waits_for_answer:
                    writer.write(second[cut:])
                return [*answers, await _answer_from(reader)]
        finally:
            writer.close()


async def _answer_from(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head.split()[1]), orjson.loads(await reader.readexactly(length))


@asynccontextmanager
async def connected(app: Any) -> AsyncIterator[Connection]:
    proceed = asyncio.Event()
    async with serving(slowly(app, proceed)) as url:
        yield Connection(int(url.rpartition(":")[2]), proceed)


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("waits_for_answer", [False, True])
async def test_a_pipelined_request_cut_at_every_byte_is_answered_as_by_plain_uvicorn(
    waits_for_answer: bool,
) -> None:
    first = post("/mirror", b"one", "X-Name: first")
    second = post("/mirror", b"two", "X-Other: second")
    gym = Mirror.standalone(name="mirror").setup_webserver()
    async with connected(gym) as ours, connected(bare_mirror) as plain:
        for cut in range(len(second) + 1):
            answers = await ours.ask(first, second, cut, waits_for_answer=waits_for_answer)
            assert answers == await plain.ask(first, second, cut, waits_for_answer=waits_for_answer), cut
            assert answers == [
                (200, {"name": "first", "body": "one"}),
                (200, {"name": None, "body": "two"}),
            ], cut


@pytest.fixture
def run_with_token() -> Iterator[None]:
    bootstrap.set_current(Bootstrap("mirror", {}, TOKEN, "cookie-key", []))
    yield
    bootstrap.set_current(None)


@pytest.mark.usefixtures("run_with_token")
@pytest.mark.parametrize("waits_for_answer", [False, True])
async def test_a_pipelined_request_without_the_token_is_refused_after_one_with_it(
    waits_for_answer: bool,
) -> None:
    first = post("/close_session", b"{}", f"X-Ng-Token: {TOKEN}", "X-Ng-Session: s")
    second = post("/close_session", b"{}", "X-Ng-Session: s")
    gym = Mirror.standalone(name="mirror").setup_webserver()
    async with connected(gym) as connection:
        for cut in range(len(second) + 1):
            allowed, refused = await connection.ask(first, second, cut, waits_for_answer=waits_for_answer)
            assert allowed == (200, {"session_id": "s", "was_open": False}), cut
            assert (refused[0], refused[1]["error"]["code"]) == (401, "token_required"), cut


SLOW = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"


class Waiting:
    """An app whose handlers of `/slow` wait until `proceed` is set. It notes the paths and bodies that it was sent."""

    def __init__(self) -> None:
        self.proceed = asyncio.Event()
        self.seen: list[tuple[str, int]] = []
        self.told: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        send.on_disconnect(lambda: self.told.append(scope["path"]))
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message["body"]), message["more_body"]
        self.seen.append((scope["path"], size))
        if scope["path"] == "/slow":
            await self.proceed.wait()
        await send_response(send, 200, [], f"{scope['path']} {size}".encode())


@asynccontextmanager
async def waiting(
    state: ListenerState | None = None, **tls: Any
) -> AsyncIterator[tuple[Waiting, Listener, int]]:
    app = Waiting()
    listener = Listener(app, **tls)
    listener.state = state or listener.state
    held = socket.create_server(("127.0.0.1", 0))
    await listener.start(held)
    try:
        yield app, listener, held.getsockname()[1]
    finally:
        app.proceed.set()
        await listener.stop(1.0)


async def _texts_from(reader: asyncio.StreamReader, count: int) -> list[str]:
    texts = []
    async with asyncio.timeout(TIMEOUT_S):
        for _ in range(count):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            texts.append((await reader.readexactly(length)).decode())
    return texts


def _requests(count: int) -> bytes:
    return b"".join(b"GET /%d HTTP/1.1\r\n\r\n" % number for number in range(count))


async def test_requests_that_wait_are_held_unparsed_and_all_are_answered_in_order() -> None:
    count = 50_000
    async with waiting() as (app, listener, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(SLOW + _requests(count))
        await until(lambda: listener.state.held.size > HIGH_WATER_LIMIT)
        (connection,) = listener.state.connections
        assert isinstance(connection, GymHttpProtocol)
        assert len(connection.pipeline) == 1
        assert connection.flow.read_paused
        assert listener.state.held.size < 1 << 20, "one read of a socket"
        assert app.seen == [("/slow", 0)]
        app.proceed.set()
        assert await _texts_from(reader, count + 1) == ["/slow 0", *(f"/{each} 0" for each in range(count))]
        assert listener.state.held.size == 0
        assert not connection.flow.read_paused
        writer.close()


async def test_the_body_of_a_waiting_request_is_not_read() -> None:
    body = b"x" * (4 << 20)
    async with waiting() as (app, listener, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(SLOW + post("/second", body) + post("/third", b"{}"))
        await until(lambda: listener.state.held.size > HIGH_WATER_LIMIT)
        (connection,) = listener.state.connections
        assert isinstance(connection, GymHttpProtocol)
        ((waiting_cycle, _),) = connection.pipeline
        assert not waiting_cycle.body
        assert listener.state.held.size < 1 << 20
        app.proceed.set()
        assert await _texts_from(reader, 3) == ["/slow 0", f"/second {len(body)}", "/third 2"]
        writer.close()


async def test_a_second_request_cut_anywhere_keeps_its_body_unread() -> None:
    """Also where the blank line after its head is divided, or a body holds blank lines."""
    second = post("/second", b"a\r\n\r\nb")
    chunked = b"POST /third HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    async with waiting() as (app, listener, port):
        for cut in range(len(second) + len(chunked)):
            app.proceed.clear()
            app.seen.clear()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            data = second + chunked + _requests(2)
            writer.write(SLOW + data[:cut])
            await until(lambda: app.seen)
            writer.write(data[cut:])
            await until(lambda: listener.state.held.size)
            (connection,) = listener.state.connections
            assert isinstance(connection, GymHttpProtocol)
            assert [len(each.body) for each, _ in connection.pipeline] == [0], cut
            app.proceed.set()
            assert await _texts_from(reader, 5) == ["/slow 0", "/second 6", "/third 3", "/0 0", "/1 0"], cut
            writer.close()
            await until(lambda: not listener.state.connections)


async def test_a_listener_holds_a_bounded_number_of_bytes() -> None:
    state = ListenerState()
    state.held = HeldTotal(100_000)
    second = post("/second", b"x" * 60_000)
    async with waiting(state) as (app, _, port):
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for (_, writer), begun in zip(clients, (0, 60_000), strict=True):
            writer.write(SLOW + second)
            await until(lambda least=begun: state.held.size > least or len(app.seen) == 2)  # type: ignore[misc]
        await until(lambda: len(app.seen) == 2 and state.held.size > 0)
        app.proceed.set()
        assert await _texts_from(clients[0][0], 2) == ["/slow 0", "/second 60000"]
        assert await _texts_from(clients[1][0], 1) == ["/slow 0"]
        assert await clients[1][0].read() == b"", "its client can send the second again"
        await until(lambda: state.held.size == 0)
        for _, writer in clients:
            writer.close()


async def test_bytes_of_a_client_that_left_are_given_back_and_its_handler_is_told() -> None:
    async with waiting() as (app, listener, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(SLOW + post("/second", b"x" * 1000))
        await until(lambda: listener.state.held.size > 1000)
        writer.transport.abort()
        await until(lambda: not listener.state.connections)
        assert listener.state.held.size == 0
        assert app.told == ["/slow"]


async def test_bytes_that_come_later_are_held_too() -> None:
    async with waiting() as (app, listener, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(SLOW + _requests(2))
        await until(lambda: listener.state.held.size > 0)
        before = listener.state.held.size
        writer.write(_requests(1))
        await until(lambda: listener.state.held.size > before)
        app.proceed.set()
        assert await _texts_from(reader, 4) == ["/slow 0", "/0 0", "/1 0", "/0 0"]
        writer.close()


async def test_what_is_not_http_behind_a_waiting_request_is_refused_after_it() -> None:
    async with waiting() as (app, listener, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(SLOW + _requests(1) + b"no HTTP\r\n\r\n")
        await until(lambda: listener.state.held.size > 0)
        app.proceed.set()
        assert await _texts_from(reader, 2) == ["/slow 0", "/0 0"]
        async with asyncio.timeout(TIMEOUT_S):
            assert (await reader.read())[:12] in (b"", b"HTTP/1.1 400")
        writer.close()


@pytest.mark.parametrize(
    ("data", "tail", "is_answered", "end"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"", True, 18),
        (b"POST / HTTP/1.1\r\n\r\n{}", b"", True, 21),
        (b"POST / HTTP/1.1\r\n\r\n{}", b"", False, 19),
        (b"A\r\n\r\nB\r\n\r\n", b"", True, 5),
        (b"\nbody", b"\r\n\r", False, 1),
        (b"\n\r\nbody", b"y\r", False, 3),
        (b"\r\n\r\nbody", b"abc", False, 4),
        (b"body without a blank line", b"", False, 25),
    ],
)
def test_a_piece_completes_at_most_one_head(data: bytes, tail: bytes, is_answered: bool, end: int) -> None:
    assert find_piece_end(Unparsed(data), tail, is_answered=is_answered) == end
