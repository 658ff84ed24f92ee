"""Connections of clients: whole responses, and the bounds on what is read before a request is admitted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.serving.connections import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    AwaitedHeads,
    GymHttpProtocol,
    ListenerState,
)
from nemo_gym.serving.listening import Listener, web_config
from nemo_gym.serving.request_bodies import BodyReader
from nemo_gym.transport.whole_response import send_messages, send_response
from tests.waiting import TIMEOUT_S, until

TOKEN = "the-run-token"
MIB = 1 << 20


class Recorded(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def close(self) -> None:
        self.closed.set()


@asynccontextmanager
async def recorded(
    app: Any, kind: type[HttpToolsProtocol] = HttpToolsProtocol
) -> AsyncIterator[tuple[Recorded, HttpToolsProtocol]]:
    """uvicorn's protocol, or the gym's, with `app` on a transport that keeps what is written to it."""
    config = web_config(app, has_lifespan=False)
    config.load()
    transport = Recorded()
    protocol = kind(config, ListenerState(), {}, asyncio.get_running_loop())
    protocol.connection_made(transport)
    yield transport, protocol


class Fixed:
    """An app that sends one response, in one call or in two messages."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.response = (status, headers, body)
        self.is_whole = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await (send_response if self.is_whole else send_messages)(send, *self.response)


async def test_uvicorn_sends_the_head_and_the_body_of_a_response_in_one_write() -> None:
    """It fails where a new uvicorn has another request cycle than `UvicornSend` expects."""
    app = Fixed(200, [(b"x-name", b"1")], b"body")
    async with recorded(app) as (transport, protocol):
        for _ in range(2):
            transport.written.clear()
            protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: transport.written)
            (written,) = transport.written
            assert written == b"HTTP/1.1 200 OK\r\nx-name: 1\r\ncontent-length: 4\r\n\r\nbody"
            assert protocol.timeout_keep_alive_task is not None, "an idle connection is closed after a while"
        assert not transport.is_closing()


@pytest.mark.parametrize(
    ("request_line", "response"),
    [
        (b"GET / HTTP/1.1\r\n", (200, [], b"body")),
        (b"GET / HTTP/1.1\r\n", (599, [(b"x", b"1")], b"body")),
        (b"GET / HTTP/1.1\r\n", (200, [], b"x" * 100_000)),
        (b"GET / HTTP/1.1\r\n", (204, [], b"")),
        (b"GET / HTTP/1.1\r\n", (304, [], b"")),
        (b"GET / HTTP/1.1\r\n", (200, [(b"connection", b"close")], b"body")),
        (b"GET / HTTP/1.1\r\n", (200, [(b"Transfer-Encoding", b"chunked")], b"body")),
        (b"GET / HTTP/1.1\r\n", (200, [(b"x", b"a\r\nset-cookie: stolen=1")], b"body")),
        (b"GET / HTTP/1.1\r\n", (200, [(b"x y", b"1")], b"body")),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n", (200, [], b"body")),
        (b"GET / HTTP/1.0\r\n", (200, [], b"body")),
        (b"HEAD / HTTP/1.1\r\n", (200, [], b"")),
    ],
)
async def test_a_response_in_one_call_is_the_response_in_two_messages(
    request_line: bytes, response: tuple[int, list[tuple[bytes, bytes]], bytes]
) -> None:
    sent: list[tuple[list[bytes], bool]] = []
    app = Fixed(*response)
    for app.is_whole in (True, False):
        async with recorded(app) as (transport, protocol):
            protocol.data_received(request_line + b"Host: x\r\n\r\n")
            await until(lambda: protocol.server_state.total_requests or transport.is_closing())
            head, _, body = b"".join(transport.written).partition(b"\r\n\r\n")
            sent.append(([*sorted(head.split(b"\r\n")), body], transport.is_closing()))
    assert sent[0] == sent[1]
    assert b"set-cookie: stolen=1" not in sent[0][0]


async def test_a_client_that_does_not_read_holds_up_its_next_response() -> None:
    app = Fixed(200, [], b"body")
    async with recorded(app) as (transport, protocol):
        protocol.pause_writing()
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(10):
            await asyncio.sleep(0)
        assert not transport.written
        protocol.resume_writing()
        await until(lambda: protocol.server_state.total_requests)
        assert b"".join(transport.written).endswith(b"\r\n\r\nbody")


@pytest.mark.parametrize(
    ("leaves", "is_told"), [("before", True), ("during", True), ("afterwards", False), ("never", False)]
)
async def test_a_handler_is_told_that_its_client_left_before_the_whole_response(
    leaves: str, is_told: bool
) -> None:
    told: list[str] = []
    begun, proceed = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if leaves == "before":
            await proceed.wait()
        send.on_disconnect(lambda: told.append(leaves))
        begun.set()
        await proceed.wait()
        await send_response(send, 200, [], b"body")

    async with recorded(app, GymHttpProtocol) as (_, protocol):
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        if leaves == "during":
            await begun.wait()
        if leaves in ("before", "during"):
            protocol.connection_lost(None)
        proceed.set()
        await asyncio.gather(*protocol.tasks)
        if leaves == "afterwards":
            protocol.connection_lost(None)
    assert told == ([leaves] if is_told else [])


async def test_nothing_is_sent_to_a_client_that_left_or_after_a_complete_response() -> None:
    proceed = asyncio.Event()
    refused: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await proceed.wait()
        for _ in range(2):
            try:
                await send_response(send, 200, [], b"body")
            except RuntimeError as error:
                refused.append(str(error))

    for has_left in (True, False):
        proceed.clear()
        async with recorded(app) as (transport, protocol):
            protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            if has_left:
                protocol.connection_lost(None)
            proceed.set()
            await asyncio.gather(*protocol.tasks)
            assert len(transport.written) == (0 if has_left else 1)
    assert len(refused) == 1, "the second response of the second request"


class Sized(SimpleResourcesServer):
    """Has a route that answers the size of its body and one of its headers."""

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/size")(self.size)
        app.post("/of/{name}")(self.size)
        return app

    async def size(self, request: Request) -> dict[str, Any]:
        return {"size": len(await request.body()), "added": request.headers.get("x-added")}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        raise NotImplementedError


@pytest.fixture
def run() -> Iterator[None]:
    """A run with a token and a bound server, in which a request may have 1 MiB without the token."""
    config = {"head_server": {"host": "127.0.0.1", "port": 1}, "max_body_mib": 1}
    bootstrap.set_current(Bootstrap("sized", config, TOKEN, "cookie-key", []))
    yield
    bootstrap.set_current(None)


class Client:
    """A connection on which bytes are sent and answers are read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def status(self) -> int:
        """Read one answer. Return its status; 0 if the connection ended."""
        async with asyncio.timeout(TIMEOUT_S):
            try:
                head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
            except (asyncio.IncompleteReadError, ConnectionError):
                return 0
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            self.answer = await self.reader.readexactly(int(length or b"0"))
            self.head = head
            return int(head.split()[1])

    async def statuses(self) -> list[int]:
        """Read answers until the connection ends."""
        read = []
        while status := await self.status():
            read.append(status)
        return read


@asynccontextmanager
async def listening(app: Any, state: ListenerState | None = None) -> AsyncIterator[tuple[Listener, int]]:
    listener = Listener(app)
    listener.state = state or listener.state
    held = socket.create_server(("127.0.0.1", 0))
    await listener.start(held)
    port = held.getsockname()[1]
    try:
        yield listener, port
    finally:
        await listener.stop(1.0)


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def sized(state: ListenerState | None = None, **options: Any) -> AsyncIterator[Client]:
    app = Sized.standalone(name="sized", **options).setup_webserver()
    async with listening(app, state) as (_, port), client_of(port) as client:
        yield client


def head_of(method: str, path: str, *headers: str, host: str = "127.0.0.1") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


JSON = "content-type: application/json"
HUGE = "content-length: 900000000"
CHUNKED = "transfer-encoding: chunked"
EXPECTS = "expect: 100-continue"
WITH_TOKEN = f"x-ng-token: {TOKEN}"


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("length", [HUGE, CHUNKED])
@pytest.mark.parametrize("expects", [(), (EXPECTS,)], ids=["plain", "expects"])
@pytest.mark.parametrize(
    ("method", "path", "headers", "host", "status"),
    [
        ("POST", "/verify", (), "127.0.0.1", 401),
        ("POST", "/verify", ("x-ng-token: wrong",), "127.0.0.1", 401),
        ("POST", "/seed_session", (), "127.0.0.1", 401),
        ("POST", "/nothing", (), "127.0.0.1", 404),
        ("POST", "/nothing", (WITH_TOKEN,), "127.0.0.1", 404),
        ("PUT", "/size", (), "127.0.0.1", 405),
        ("DELETE", "/of/x", (), "127.0.0.1", 405),
        ("PUT", "/verify", (WITH_TOKEN,), "127.0.0.1", 405),
        ("POST", "/size", (), "attacker.example", 421),
        ("POST", "/size", ("origin: https://attacker.example",), "127.0.0.1", 403),
        ("POST", "/size", ("content-type: text/plain",), "127.0.0.1", 415),
        ("POST", "/size", ("x-ng-deadline: soon",), "127.0.0.1", 422),
        ("POST", "/size", ("content-encoding: gzip",), "127.0.0.1", 415),
        ("POST", "/verify", (WITH_TOKEN, "content-encoding: zstd"), "127.0.0.1", 415),
        ("POST", "/of/x", ("Content-Encoding: gzip", "Content-Encoding: identity"), "127.0.0.1", 415),
        ("POST", "/verify", ("content-encoding: gzip",), "127.0.0.1", 401),
        ("POST", "/nothing", ("content-encoding: gzip",), "127.0.0.1", 404),
    ],
)
async def test_a_refusal_is_sent_after_the_head_and_ends_the_connection(
    method: str,
    path: str,
    headers: tuple[str, ...],
    host: str,
    status: int,
    expects: tuple[str, ...],
    length: str,
) -> None:
    given = (*headers, *expects, length) + (
        () if any("content-type" in each for each in headers) else (JSON,)
    )
    async with sized() as client:
        await client.send(head_of(method, path, *given, host=host))
        assert await client.status() == status
        assert b"connection: close" in client.head
        assert await client.statuses() == []


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("path", ["/size", "/nothing", "/of/x", "/ng-rollout/x/v1/responses", "/mcp"])
async def test_a_server_that_others_reach_asks_for_the_token_before_the_body(path: str) -> None:
    async with sized(host="0.0.0.0") as client:
        await client.send(head_of("POST", path, JSON, HUGE, EXPECTS))
        assert (await client.status(), await client.status()) == (401, 0)


@pytest.mark.usefixtures("run")
async def test_a_refused_client_may_send_its_body_and_read_the_answer_after_it() -> None:
    async with sized() as client:
        await client.send(head_of("POST", "/verify", JSON, f"content-length: {20 * MIB}"))
        await client.send(b"x" * (20 * MIB))
        assert (await client.status(), await client.status()) == (401, 0)


@pytest.mark.usefixtures("run")
async def test_a_refused_request_that_has_arrived_leaves_its_connection_open() -> None:
    async with sized() as client:
        for path in ("/verify", "/nothing", "/size"):
            await client.send(head_of("POST", path, JSON, "content-length: 2") + b"{}")
        assert [await client.status() for _ in range(3)] == [401, 404, 200]


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("path", ["/size", "/of/x"])
async def test_a_body_of_any_size_is_read_with_the_token(path: str) -> None:
    size = 3 * MIB
    part = b"%x\r\n%b\r\n" % (MIB, b"x" * MIB)
    async with sized() as client:
        await client.send(head_of("POST", path, JSON, WITH_TOKEN, f"content-length: {size}") + b"x" * size)
        assert (await client.status(), orjson.loads(client.answer)["size"]) == (200, size)
        await client.send(head_of("POST", path, JSON, WITH_TOKEN, CHUNKED) + part * 3 + b"0\r\n\r\n")
        assert (await client.status(), orjson.loads(client.answer)["size"]) == (200, size)


@pytest.mark.usefixtures("run")
async def test_a_body_without_the_token_has_at_most_the_configured_size() -> None:
    part = b"%x\r\n%b\r\n" % (MIB, b"x" * MIB)
    async with sized() as client:
        await client.send(head_of("POST", "/size", JSON, f"content-length: {MIB}") + b"x" * MIB)
        assert await client.status() == 200
        await client.send(head_of("POST", "/size", JSON, CHUNKED) + part + b"0\r\n\r\n")
        assert await client.status() == 200
        await client.send(head_of("POST", "/size", JSON, EXPECTS, f"content-length: {MIB + 1}"))
        assert (await client.status(), await client.status()) == (413, 0), (
            "no interim response invites the body"
        )
    async with sized() as client:
        await client.send(head_of("POST", "/size", JSON, CHUNKED) + part + b"1\r\nx\r\n")
        assert (await client.status(), await client.status()) == (413, 0)


async def test_the_body_of_an_admitted_request_is_asked_for() -> None:
    async with sized() as client:
        await client.send(head_of("POST", "/size", JSON, "content-length: 2", EXPECTS))
        assert await client.status() == 100
        await client.send(b"{}")
        assert await client.status() == 200
        await client.send(
            head_of("POST", "/size", JSON, "content-length: 2", EXPECTS).replace(b"/1.1", b"/1.0")
        )
        await client.send(b"{}")
        assert await client.status() == 200, "HTTP/1.0 has no interim response"


async def test_a_body_that_never_ends_is_given_up() -> None:
    server = Sized.standalone(name="sized")
    server.middleware.bodies = BodyReader(body_s=0.05)
    async with listening(server.setup_webserver()) as (_, port), client_of(port) as client:
        await client.send(head_of("POST", "/size", JSON, "content-length: 10") + b"{")
        assert (await client.status(), await client.status()) == (408, 0)
        assert orjson.loads(client.answer)["error"]["retryable"] is True


LONG = b"x" * (MAX_HEAD_BYTES + 1)
ENDLESS = {
    "one header": (b"GET / HTTP/1.1\r\nhost: x\r\nx-long: " + LONG, 431),
    "a header's name": (b"GET / HTTP/1.1\r\nhost: x\r\n" + LONG, 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * (MAX_HEADERS + 1) + b"\r\n", 431),
    "long headers": (b"GET / HTTP/1.1\r\n" + (b"x: " + b"y" * 999 + b"\r\n") * 100 + b"\r\n", 431),
    "a URL": (b"GET /" + LONG, 414),
    "a URL of 40,000 bytes": (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414),
    "a query": (b"GET /health?" + b"x" * 40_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414),
    "a long URL and long headers": (
        b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 60_000 + b"\r\n\r\n",
        414,
    ),
    "a URL with a line end": (b"GET /" + b"x" * 40_000 + b"?" + b"y" * 40_000 + b" HTTP/1.1\r\n\r\n", 414),
    "empty lines": (b"\r\n" * MAX_HEAD_BYTES, 431),
    "a method": (b"G" * (MAX_HEAD_BYTES + 1), 400),
    "the fields after a body": (head_of("POST", "/size", JSON, CHUNKED) + b"0\r\nx: " + LONG, 431),
    "a chunk's extension": (head_of("POST", "/size", JSON, CHUNKED) + b"1;x=" + LONG, 431),
}


@pytest.mark.parametrize("case", ENDLESS)
@pytest.mark.parametrize("is_second", [False, True], ids=["first", "second"])
async def test_a_head_without_an_end_is_refused(case: str, is_second: bool) -> None:
    data, status = ENDLESS[case]
    async with sized() as client:
        if is_second:
            await client.send(head_of("POST", "/size", JSON, "content-length: 2") + b"{}")
            assert await client.status() == 200
        await client.send(data)
        for _ in range(6):  # the part that came with an earlier request's end is not counted
            await client.send(data[-60_000:])
        assert (await client.status(), await client.status()) == (status, 0)
        assert orjson.loads(client.answer)["error"]["code"]


async def test_a_head_of_ordinary_size_may_arrive_byte_by_byte() -> None:
    head = head_of("GET", "/health", *(f"x-{number}: {'y' * 100}" for number in range(MAX_HEADERS - 1)))
    async with sized() as client:
        for start in range(0, len(head), 1000):
            await client.send(head[start : start + 1000])
        assert await client.status() == 200


@pytest.mark.parametrize("begun", [b"G", b"GET / HTTP/1.1\r\nhost: x\r\n", b"\r\n"])
@pytest.mark.parametrize("is_second", [False, True], ids=["first", "second"])
async def test_a_head_that_is_late_is_refused(begun: bytes, is_second: bool) -> None:
    async with sized(ListenerState(head_s=0.05)) as client:
        if is_second:
            await client.send(head_of("GET", "/health"))
            assert await client.status() == 200
        await client.send(begun)
        assert (await client.status(), await client.status()) == (408, 0)


async def test_a_late_head_after_a_request_in_the_same_bytes_ends_its_connection() -> None:
    async with sized(ListenerState(head_s=0.05)) as client:
        await client.send(head_of("GET", "/health") + b"GET /health HTTP/1.1\r\n")
        assert await client.status() == 200
        assert await client.status() in (0, 408), "before or after the answer to the first"


async def test_a_connection_that_sends_nothing_is_closed_without_an_answer() -> None:
    async with sized(ListenerState(head_s=0.05)) as client:
        assert await client.status() == 0


async def test_the_oldest_part_of_a_head_makes_room() -> None:
    state = ListenerState(max_parts=2)
    app = Sized.standalone(name="sized").setup_webserver()
    async with listening(app, state) as (_, port):
        async with client_of(port) as first, client_of(port) as second, client_of(port) as third:
            for number, client in enumerate((first, second, third), 1):
                await client.send(b"GET /health HTTP/1.1\r\n")
                await until(lambda awaited=number: len(state.heads.parts) >= min(awaited, 2))  # type: ignore[misc]
            assert await first.status() == 408
            for client in (second, third):
                await client.send(b"host: x\r\n\r\n")
                assert await client.status() == 200
        await until(lambda: len(state.heads) == 0)


def test_a_head_is_late_after_half_to_all_of_its_time() -> None:
    """The event loop is the test's: it runs what is due."""
    due: list[tuple[float, Any, tuple[Any, ...]]] = []

    class Loop:
        def call_later(self, delay: float, call: Any, *given: Any) -> str:
            due.append((delay, call, given))
            return "a handle"

    class Connection:
        loop: Any = Loop()
        ended = 0

        def end_late_head(self) -> None:
            heads.remove(self)  # type: ignore[arg-type]
            self.ended += 1

    heads = AwaitedHeads(20.0, 1)
    patient, quick, late = Connection(), Connection(), Connection()
    for connection in (patient, quick, late):
        heads.add(connection)  # type: ignore[arg-type]

    def pass_time() -> float:
        delay, call, given = due.pop(0)
        call(*given)
        return float(delay)

    assert pass_time() == 10.0
    heads.remove(quick)  # type: ignore[arg-type]
    assert pass_time() == 10.0
    heads.remove(patient)  # type: ignore[arg-type]
    assert late.ended == 0, "what has arrived is read first"
    assert pass_time() == 1.0
    assert (patient.ended, quick.ended, late.ended, len(heads)) == (0, 0, 1, 0)


async def test_requests_before_a_broken_one_are_answered() -> None:
    ask = head_of("POST", "/size", JSON, "content-length: 2") + b"{}"
    broken = head_of("POST", "/size", JSON, CHUNKED) + b"zz\r\n"
    for wrong in (b"no HTTP\r\n\r\n", broken, ENDLESS["one header"][0] * 6):
        async with sized() as client:
            await client.send(ask + ask + wrong)
            assert [await client.status(), await client.status()] == [200, 200], wrong[:20]
            assert await client.status() in (0, 400, 431), wrong[:20]


async def test_the_fields_after_a_body_are_not_headers() -> None:
    async with sized() as client:
        body = b"2\r\n{}\r\n0\r\nx-added: yes\r\n\r\n"
        await client.send(head_of("POST", "/of/x", JSON, CHUNKED) + body)
        assert await client.status() == 200
        assert orjson.loads(client.answer) == {"size": 2, "added": None}


async def test_the_mock_engine_refuses_before_the_body_and_bounds_it() -> None:
    async with MockEngine(EngineOptions(api_key="secret")) as engine:
        port = int(engine.root_url.rpartition(":")[2])
        for method, path, status in (
            ("POST", "/v1/chat/completions", 401),
            ("POST", "/nothing", 404),
            ("PUT", "/tokenize", 405),
            ("POST", "/tokenize", 413),
            ("POST", "/tokenize?coded", 415),
        ):
            coding = ("content-encoding: br",) if "coded" in path else ()
            async with client_of(port) as client:
                await client.send(head_of(method, path, JSON, HUGE, EXPECTS, *coding))
                assert (await client.status(), await client.status()) == (status, 0)


async def test_any_app_that_answers_before_the_body_ends_its_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

    async with listening(app) as (_, port), client_of(port) as client:
        await client.send(head_of("POST", "/", HUGE))
        assert (await client.status(), await client.status()) == (200, 0)
