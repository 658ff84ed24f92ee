"""A gym in one event loop: real servers and routes, with calls through memory instead of sockets.

    gym = InProcessGym()
    gym.add(MyEnvironment, "my_env")
    gym.add(SimpleAgent, "agent", resources_server={...}, model_server={...})
    row = await gym.run("agent", {"responses_create_params": {"input": "hello"}})

`async with gym.running(over_http=True)` puts the same servers on loopback ports while the block runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from yarl import URL

from nemo_gym.agents.agent import SimpleResponsesAPIAgent
from nemo_gym.engines.model import SimpleResponsesAPIModel
from nemo_gym.episodes.environment_server import BaseEnvironmentServer
from nemo_gym.json_objects import parse_json
from nemo_gym.rows.forms import AnyRow
from nemo_gym.serving.base import SimpleServer
from nemo_gym.testing.serving import serving
from nemo_gym.transport import HttpTransport, InMemoryTransport, Transport
from nemo_gym.transport.directory import base_url, server_block
from nemo_gym.transport.server_client import ServerClient, ServerReply

_HOST = "127.0.0.1"
_FIRST_PORT = 20_001  # a name in the directory; nothing listens there


class InProcessGym:
    """Servers that call each other through an in-memory transport."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.transport = InMemoryTransport()
        self.servers: dict[str, SimpleServer] = {}
        self._over: Transport = self.transport

    def add(self, server_class: type[SimpleServer], name: str, **options: Any) -> SimpleServer:
        """Add a server named `name` with the configuration `options`."""
        port = _FIRST_PORT + len(self.config)
        block = {"entrypoint": "app.py", "host": _HOST, "port": port, **options}
        self.config[name] = {find_server_kind(server_class): {server_class.__name__: block}}
        server = server_class(
            config=server_class.build_server_config(name, self.config), server_client=self.client()
        )
        self.servers[name] = server
        self.transport.apps[base_url(_HOST, port)] = server.finish_app()
        self._reconnect()
        return server

    def client(self) -> ServerClient:
        """Return a client for all added servers."""
        return ServerClient.connect(self.config, transport=self._over, token=None)

    def _reconnect(self) -> None:
        for server in self.servers.values():
            server.server_client = self.client()

    @asynccontextmanager
    async def running(self, *, over_http: bool = False) -> AsyncIterator[None]:
        """Start every server as a server process does, and stop it at the end. `over_http`: on loopback ports."""
        async with AsyncExitStack() as stack:
            if over_http:
                await self._listen(stack)
            else:
                for server in self.servers.values():
                    await stack.enter_async_context(server.alive())
            yield

    async def _listen(self, stack: AsyncExitStack) -> None:
        transport = self._over = HttpTransport()
        stack.push_async_callback(transport.close)
        for name, server in self.servers.items():
            port = URL(await stack.enter_async_context(serving(server))).port
            block = server_block(self.config[name])
            assert isinstance(block, dict)
            assert port is not None
            block["port"] = server.config.port = port
        self._reconnect()

    async def post(self, server: str, path: str, body: Any = None, **options: Any) -> ServerReply:
        return await self.client().post(server, path, json={} if body is None else body, **options)

    async def run(self, agent: str, row: AnyRow) -> dict[str, Any]:
        """Return the scored row of one attempt. Raises `UpstreamError` when it failed."""
        reply = await self.post(agent, "/run", row)
        reply.raise_for_status()
        scored: dict[str, Any] = parse_json(reply.body)
        return scored


def find_server_kind(server_class: type[SimpleServer]) -> str:
    """Return the configuration key for instances of a server class."""
    if issubclass(server_class, SimpleResponsesAPIAgent):
        return "responses_api_agents"
    if issubclass(server_class, BaseEnvironmentServer):
        return "environment_servers"
    return (
        "responses_api_models" if issubclass(server_class, SimpleResponsesAPIModel) else "resources_servers"
    )
