"""A client of a faulty server with an open session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from nemo_gym.testing.faulty_server import FaultyServer
from nemo_gym.testing.serving import serving
from nemo_gym.transport import Call, HttpTransport, InMemoryTransport, Reply, Transport

SESSION = {"x-ng-session": "s", "content-type": "application/json"}


class Client:
    def __init__(self, url: str, transport: Transport) -> None:
        self._url = url
        self._transport = transport

    async def post(self, path: str, **body: Any) -> Reply:
        return await self._transport.send(self._url, Call("POST", path, orjson.dumps(body), dict(SESSION)))

    async def saw(self) -> dict[str, Any]:
        reply = await self._transport.send(self._url, Call("GET", "/_ng/saw"))
        seen: dict[str, Any] = reply.json()
        return seen


@asynccontextmanager
async def faulty(*rules: dict[str, Any], over_http: bool = True) -> AsyncIterator[Client]:
    """A client of a server with an open session."""
    server = FaultyServer.standalone(name="env", faults=list(rules))
    async with serving(server) as url:
        transport: Transport = (
            HttpTransport() if over_http else InMemoryTransport({url: server.setup_webserver()})
        )
        client = Client(url, transport)
        await client.post("/seed_session")
        yield client
        await transport.close()
