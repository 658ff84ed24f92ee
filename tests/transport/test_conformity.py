"""Our client and aiohttp read the same bytes in the same way, unless ours is stricter for a reason."""

from __future__ import annotations

import asyncio
import contextlib
import random
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import uvloop

from nemo_gym.failures import TransportError
from nemo_gym.transport import Call
from nemo_gym.transport._answer_parser import AnswerError, AnswerParser
from nemo_gym.transport._plain_http import PlainHttp
from nemo_gym.transport.calls import UNDELIVERED_CODES
from tests.transport.raw_answers import CHUNKED, LEFT_OVER, OK, ROWS, SMUGGLED, Row

Outcome = tuple[int, bytes] | str
FAILED = "failed"


@asynccontextmanager
async def answering(pieces: Sequence[bytes], *, stays_open: bool) -> AsyncIterator[str]:
    """The URL of a server that answers every request with `pieces`, each sent on its own."""
    is_over = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            if stays_open:
                await is_over.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has seen enough
        finally:
            writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        is_over.set()


async def outcome_of_ours(row: Row, pieces: Sequence[bytes]) -> Outcome:
    client = PlainHttp()
    async with answering(pieces, stays_open=row.stays_open) as url:
        try:
            reply = await client.send(url, Call(row.method, "/"))
        except TransportError as error:
            return error.failure.code
        finally:
            await client.close()
    return reply.status, reply.body


async def outcome_of_aiohttp(row: Row) -> Outcome:
    async with (
        answering([row.raw], stays_open=row.stays_open) as url,
        aiohttp.ClientSession(skip_auto_headers=("Accept-Encoding",)) as session,
    ):
        try:
            async with session.request(row.method, url, allow_redirects=False) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError):
            return FAILED


def pieces_of(raw: bytes, most: int, seed: str) -> list[bytes]:
    """`raw` cut at random places."""
    cuts = sorted(random.Random(seed).sample(range(len(raw) + 1), min(most, len(raw) + 1)))
    return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


def by_name(row: Row) -> str:
    return row.name


def test_the_table_is_whole() -> None:
    assert len(ROWS) >= 60
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=by_name)
async def test_ours_makes_of_it_what_the_table_says(row: Row) -> None:
    assert await outcome_of_ours(row, [row.raw]) == row.expected
    assert await outcome_of_ours(row, pieces_of(row.raw, 8, row.name)) == row.expected


@pytest.mark.parametrize("row", ROWS, ids=by_name)
async def test_aiohttp_makes_the_same_of_it_or_the_table_says_why_not(row: Row) -> None:
    expected = FAILED if isinstance(row.expected, str) else row.expected
    theirs = await outcome_of_aiohttp(row)
    assert theirs == expected or row.differs, theirs  # a later aiohttp may come nearer to ours


def read(row: Row, pieces: Sequence[bytes]) -> Outcome:
    """Parse the bytes without a socket."""
    parser = AnswerParser(row.method)
    try:
        for piece in pieces:
            parser.feed(piece)
            if parser.is_whole:
                break
        if not parser.is_whole:
            parser.end()
        reply = parser.reply()
    except AnswerError as error:
        return error.code
    return reply.status, reply.body


@pytest.mark.parametrize("row", ROWS, ids=by_name)
def test_it_does_not_matter_where_the_bytes_are_cut(row: Row) -> None:
    raw = row.raw
    cuts = range(len(raw)) if len(raw) < 2_000 else random.Random(row.name).sample(range(len(raw)), 50)
    for cut in cuts:
        assert read(row, [raw[:cut], raw[cut:]]) == row.expected
    if len(raw) < 20_000:
        assert read(row, [raw[at : at + 1] for at in range(len(raw))]) == row.expected


@pytest.mark.parametrize("row", ROWS, ids=by_name)
def test_an_answer_that_is_cut_short_is_never_a_whole_one(row: Row) -> None:
    """Every beginning is either an error, or where the end of the connection ends the body, a beginning of it."""
    if isinstance(row.expected, str) or row in LEFT_OVER:
        return
    status, body = row.expected
    ends_with_the_connection = row.raw.endswith(b"\r\n\r\n" + body) and read_to_end(row)
    for cut in range(0, len(row.raw), max(1, len(row.raw) // 500)):
        outcome = read(row, [row.raw[:cut]])
        if ends_with_the_connection and not isinstance(outcome, str):
            assert outcome == (status, outcome[1])
            assert body.startswith(outcome[1])
        else:
            assert outcome == "disconnected"


def read_to_end(row: Row) -> bool:
    parser = AnswerParser(row.method)
    parser.feed(row.raw)
    return not parser.is_whole


# --- Two calls over one connection ------------------------------------------------------------------------------


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
    async def serving(self) -> AsyncIterator[str]:
        async with await asyncio.start_server(self._handle, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
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


# --- What an error means for another attempt --------------------------------------------------------------------


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
