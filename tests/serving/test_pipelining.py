"""Pipelined requests on one connection are never mixed: each is answered by its own content."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.testing.serving import serving
from tests.waiting import TIMEOUT_S

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
