"""An HTTP client of an app that listens on loopback."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import orjson
from aiohttp import ClientSession, CookieJar
from starlette.types import ASGIApp

from nemo_gym.serving.listening import Listener


class Answer(NamedTuple):
    """A whole answer. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


class Browser:
    """A client that keeps cookies."""

    def __init__(self, session: ClientSession, port: int) -> None:
        self._session, self.port = session, port

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.send("GET", path, **options)

    async def send(self, method: str, path: str, **options: Any) -> Answer:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self._session.request(method, url, **options) as answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.status, headers, await answer.read())


@asynccontextmanager
async def browsing(app: ASGIApp) -> AsyncIterator[Browser]:
    """Serve `app` and yield a browser of it."""
    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(app)
    await listener.start(listening)
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield Browser(session, listening.getsockname()[1])
    await listener.stop(1.0)
