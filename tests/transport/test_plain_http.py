"""Calls over kept connections: every call gets its own response, and errors have the right code."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from nemo_gym.failures import TransportError
from nemo_gym.tls import context_trusting, server_context
from nemo_gym.transport import Call
from nemo_gym.transport._plain_http import PlainHttp
from nemo_gym.transport.calls import UNDELIVERED_CODES
from tests.certificates import Authority
from tests.transport.loopback import answering, read_request, serve
from tests.transport.raw_answers import CHUNKED, OK, SMUGGLED
from tests.waiting import until

KEPT = (
    OK + b"Content-Length: %d\r\n\r\n%b",
    OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: %d\r\n\r\n%b",
)


CLOSED = (
    OK + b"Connection: close\r\nContent-Length: %d\r\n\r\n%b",
    OK + b"Connection: foo, close\r\nContent-Length: %d\r\n\r\n%b",
    b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b",
)


BEHIND = {
    "an answer": SMUGGLED,
    "an answer in chunks": CHUNKED + b"2\r\nno\r\n0\r\n\r\n",
    "half an answer": SMUGGLED[:9],
    "an interim answer": b"HTTP/1.1 100 Continue\r\n\r\n",
    "garbage": b"\x00\xff",
    "a line break": b"\r\n",
}


class Echo:
    """A server that answers with the path it was asked for, and sends `behind` after each answer, cut at `cut`."""

    def __init__(self, form: bytes, behind: bytes = b"", cut: int | None = None) -> None:
        self.form, self.behind, self.cut = form, behind, cut
        self.connections: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        async with await asyncio.start_server(self._handle, "127.0.0.1", 0, ssl=tls) as server:
            scheme = "http" if tls is None else "https"
            yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            for writer in self.connections:
                writer.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        try:
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
                raw = self.form % (len(path), path) + self.behind
                cut = len(raw) if self.cut is None else self.cut
                for piece in (raw[:cut], raw[cut:]):
                    writer.write(piece)
                    await asyncio.sleep(0)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()


async def ask(client: PlainHttp, url: str, calls: int = 4) -> None:
    """Each call gets its own answer."""
    for number in range(calls):
        path = f"/{number}"
        assert (await client.send(url, Call("GET", path))).body == path.encode()
    await client.close()


@pytest.mark.parametrize("form", KEPT)
async def test_a_connection_that_is_kept_carries_all_calls(form: bytes) -> None:
    echo = Echo(form)
    async with echo.serving() as url:
        await ask(PlainHttp(), url)
        assert len(echo.connections) == 1


@pytest.mark.parametrize("form", CLOSED)
async def test_a_connection_that_the_server_gives_up_carries_one_call(form: bytes) -> None:
    echo = Echo(form)
    async with echo.serving() as url:
        await ask(PlainHttp(), url)
        assert len(echo.connections) == 4


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_bytes_behind_an_answer_are_no_answer_to_the_next_call(
    behind: bytes, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """In one piece with the answer, cut within it, cut between the two, and cut within the bytes behind it."""

    async def attack(cut: int | None) -> None:
        echo = Echo(KEPT[0], behind, cut)
        async with echo.serving() as url:
            await ask(PlainHttp(), url)
            assert len(echo.connections) == 4

    length = len(KEPT[0] % (2, b"/0"))
    for cut in (None, 1, length - 1, length, length + 1):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(attack(cut))


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
async def test_bytes_that_arrive_between_two_calls_break_the_connection(behind: bytes) -> None:
    """Even when the event loop has not read them before the next call is made."""
    echo = Echo(KEPT[0])
    client = PlainHttp()
    async with echo.serving() as url:
        assert (await client.send(url, Call("GET", "/first"))).body == b"/first"
        (idle,) = client._origins[url].idle
        echo.connections[0].write(behind)
        idle._readable.poll(30_000)  # holds the event loop until they have arrived
        assert (await client.send(url, Call("GET", "/second"))).body == b"/second"
        assert len(echo.connections) == 2
        await client.close()


async def test_a_connection_that_was_closed_between_two_calls_is_not_used() -> None:
    """A call with side effects would fail as ambiguous there."""
    echo = Echo(KEPT[0])
    client = PlainHttp()
    async with echo.serving() as url:
        await client.send(url, Call("GET", "/first"))
        (idle,) = client._origins[url].idle
        transport = echo.connections[0].transport
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write_eof()
        idle._readable.poll(30_000)
        assert (await client.send(url, Call("POST", "/second", b"{}"))).body == b"/second"
        await client.close()


class BusyLoop(asyncio.SelectorEventLoop):
    """Comes to a new connection only when something has arrived there."""

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        made = await super().create_connection(*args, **options)
        select.select([made[0].get_extra_info("socket").fileno()], [], [], 30)
        return made


def test_an_answer_before_a_call_was_sent_is_no_answer_to_it() -> None:
    """The call is certainly undelivered, so that any call may be sent again."""
    received: list[bytes] = []

    def greet(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(SMUGGLED)
            with contextlib.suppress(ConnectionError):
                received.append(connection.recv(1000))

    async def call(url: str) -> TransportError:
        with pytest.raises(TransportError) as caught:
            await PlainHttp().send(url, Call("POST", "/", b"{}"))
        return caught.value

    with socket.create_server(("127.0.0.1", 0)) as listening:
        greeting = threading.Thread(target=greet, args=[listening])
        greeting.start()
        with asyncio.Runner(loop_factory=BusyLoop) as runner:
            error = runner.run(call(f"http://127.0.0.1:{listening.getsockname()[1]}"))
        greeting.join(30)
    assert b"".join(received) == b""
    assert error.failure.code == "unasked_answer"
    assert error.failure.code in UNDELIVERED_CODES
    assert error.failure.retryable


@pytest.mark.parametrize(
    ("raw", "code", "retryable"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n", "malformed_answer", True),
        (OK, "disconnected", True),
        (b"HTTP/1.1 101 x\r\n\r\n", "unsupported_answer", False),
    ],
)
async def test_an_answer_that_fails_names_its_server_and_whether_to_try_again(
    raw: bytes, code: str, retryable: bool
) -> None:
    async with answering([raw], stays_open=False) as url:
        with pytest.raises(TransportError) as caught:
            await PlainHttp().send(url, Call("GET", "/"))
    failure = caught.value.failure
    assert (failure.code, failure.retryable, failure.peer) == (code, retryable, url)
    assert url in failure.message
    assert failure.code not in UNDELIVERED_CODES


async def test_a_malformed_header_is_named_without_its_value() -> None:
    raw = OK + b"set-cookie : token=secret\r\n\r\n"
    async with answering([raw], stays_open=False) as url:
        with pytest.raises(TransportError, match="set-cookie") as caught:
            await PlainHttp().send(url, Call("GET", "/"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["host", "content-length", "transfer-encoding"])
async def test_a_caller_cannot_frame_the_request_itself(name: str) -> None:
    with pytest.raises(TransportError, match=name):
        await PlainHttp().send("http://127.0.0.1:1", Call("POST", "/", b"{}", {name: "1"}))


async def test_idle_connections_give_way_when_no_more_may_be_open() -> None:
    """Those to one peer are closed for those to another, the longest idle first, and none while there is room."""
    open_to: dict[str, int] = {}

    async def talk(url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_to[url] = open_to.get(url, 0) + 1
        try:
            while True:
                await read_request(reader)
                await asyncio.sleep(0.02)  # so that calls overlap
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        except asyncio.IncompleteReadError:
            open_to[url] -= 1

    client = PlainHttp()
    client.max_open = 4
    async with serve(lambda *streams: talk("one", *streams)) as one, serve(lambda *s: talk("two", *s)) as two:
        await asyncio.gather(*(client.send(one, Call("GET", "/")) for _ in range(3)))
        await client.send(two, Call("GET", "/"))
        assert open_to == {"one": 3, "two": 1}
        await asyncio.gather(*(client.send(two, Call("GET", "/")) for _ in range(3)))
        await until(lambda: open_to == {"one": 1, "two": 3})
        await client.close()
        await until(lambda: open_to == {"one": 0, "two": 0})


async def test_few_connections_are_opened_at_once_while_the_server_accepts_none() -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=0)
    address = listening.getsockname()
    waiting = socket.create_connection(address)  # fills the backlog
    client = PlainHttp(most_opening=2)
    calls = [
        asyncio.create_task(client.send("http://{}:{}".format(*address), Call("GET", "/"))) for _ in range(6)
    ]
    await until(lambda: opening_to(address) == 2)
    await asyncio.sleep(0.1)
    assert opening_to(address) == 2, "the other calls wait"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await read_request(reader)
                writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
        except asyncio.IncompleteReadError:
            pass  # the client is done
        finally:
            writer.close()

    async with await asyncio.start_server(talk, sock=listening):
        assert [(await call).body for call in calls] == [b"{}"] * 6
        await client.close()
        waiting.close()


def opening_to(address: tuple[str, int]) -> int:
    """The connections of this process to `address` that are not open yet."""
    found = psutil.Process().net_connections("tcp4")
    return sum(each.raddr == address and each.status == psutil.CONN_SYN_SENT for each in found)


# --- TLS --------------------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def trusting(authority: Authority) -> PlainHttp:
    return PlainHttp(tls=context_trusting(str(authority.ca)))


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_with_tls_carries_all_calls(
    authority: Authority, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def call() -> None:
        echo = Echo(KEPT[0])
        async with echo.serving(server_context({"tls": authority.issue()})) as url:
            client = trusting(authority)
            await ask(client, url)
            path = "/" + "x" * 60_000  # more than one record
            assert (await client.send(url, Call("GET", path))).body == path.encode()
            await client.close()
        assert len(echo.connections) == 2

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(call())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_bytes_behind_an_answer_over_tls_are_no_answer_to_the_next_call(
    behind: bytes, authority: Authority, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """In a record with the answer, and in the next one."""

    async def attack(cut: int | None) -> None:
        echo = Echo(KEPT[0], behind, cut)
        async with echo.serving(server_context({"tls": authority.issue()})) as url:
            await ask(trusting(authority), url)
            assert len(echo.connections) == 4

    for cut in (None, len(KEPT[0] % (2, b"/0"))):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(attack(cut))


async def code_of(client: PlainHttp, url: str) -> str:
    """The code of the failure of a call."""
    with pytest.raises(TransportError) as caught:
        await client.send(url, Call("GET", "/secret"))
    await client.close()
    return caught.value.failure.code


async def test_nothing_is_sent_to_a_server_whose_certificate_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    echo = Echo(KEPT[0])
    tls = authority.issue("127.0.0.1")
    async with echo.serving(server_context({"tls": tls})) as url:
        stranger = Authority(tmp_path / "stranger")
        assert await code_of(trusting(stranger), url) == "untrusted"
        assert await code_of(trusting(authority), url.replace("127.0.0.1", "localhost")) == "untrusted"
        assert await code_of(PlainHttp(), url) == "invalid_url"
        assert await code_of(PlainHttp(), url.replace("https", "http")) == "disconnected"
        assert not echo.connections


async def test_a_server_without_tls_gets_no_call(authority: Authority) -> None:
    seen: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(1 << 16))
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with serve(refuse) as url:
        assert await code_of(trusting(authority), url.replace("http", "https")) == "no_tls"
    assert b"secret" not in seen[0]
    assert {"untrusted", "no_tls"} <= UNDELIVERED_CODES
