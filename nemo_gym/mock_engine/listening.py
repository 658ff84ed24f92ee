"""Serves the engine's app on a socket.

It runs the protocol straight from the event loop instead of `uvicorn.Server`, which installs signal handlers, wakes
up ten times a second, and stops in its own time; a test wants none of these.
"""

from __future__ import annotations

import asyncio
import socket

from uvicorn.config import Config
from uvicorn.server import ServerState

from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.stats import EngineStats
from nemo_gym.servers.http_protocol import GymProtocol

BACKLOG = 4_096
"""Connections that may wait to be accepted: thousands of clients can come at the same moment."""
KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that the engine isn't the one to close them."""
STOP_WITHIN_S = 1.0


class Listening:
    """A listening socket and the connections that came of it."""

    def __init__(self, app: EngineApp, stats: EngineStats) -> None:
        self._stats = stats
        self._state = ServerState()
        stats.connections = self._state.connections
        self._server: asyncio.Server | None = None
        self._config = Config(
            app,
            http=GymProtocol,
            loop="none",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )

    async def start(self, listener: socket.socket) -> None:
        self._config.load()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_protocol, sock=listener, backlog=BACKLOG)

    def _new_protocol(self) -> asyncio.Protocol:
        self._stats.connections_opened += 1
        return GymProtocol(self._config, self._state, {}, asyncio.get_running_loop())

    async def stop(self) -> None:
        """Closes the socket and cuts the connections; what still waits on them notices, and ends."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            connection.transport.abort()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=STOP_WITHIN_S)
