"""HTTP over sockets: uvicorn serves every app, including the mock engine."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from nemo_gym.serving.connections import GymHttpProtocol, ListenerState, wrap_for_whole_responses

log = logging.getLogger(__name__)

SERVER_KEEPALIVE_S = 75
"""Longer than clients keep an idle connection, so that the server never closes one during a request."""
DRAIN_S = 1
NOTICE_WITHIN_S = 0.3
"""How long handlers of a loopback server may notice that their connections have gone."""
BACKLOG = 4_096
"""Connections that may wait to be accepted: thousands of clients can connect at the same moment."""


def web_config(app: ASGIApp, *, has_lifespan: bool = True) -> uvicorn.Config:
    """Return the uvicorn settings for `app`."""
    return uvicorn.Config(
        wrap_for_whole_responses(app),
        loop="none",
        http=GymHttpProtocol,
        interface="asgi3",
        access_log=False,
        log_config=None,
        log_level="warning",
        lifespan="on" if has_lifespan else "off",
        timeout_keep_alive=SERVER_KEEPALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        backlog=BACKLOG,
        server_header=False,
        date_header=False,
        proxy_headers=False,
    )


@contextmanager
def accepting_all(
    listening: socket.socket, new_protocol: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
) -> Iterator[None]:
    """Within the block, accept all connections that wait at `listening` whenever one arrives.

    uvloop itself accepts one in an iteration of its loop. An iteration of a busy server takes long, so its backlog
    would overflow, and the kernel would refuse or reset connections.
    """
    loop = asyncio.get_running_loop()
    own = listening.dup()  # uvloop watches `listening` itself
    own.setblocking(False)
    opening: set[asyncio.Task[Any]] = set()

    def finish_opening(task: asyncio.Task[Any]) -> None:
        opening.discard(task)
        if not task.cancelled() and isinstance(task.exception(), OSError):
            log.debug(
                "a connection was not opened: %s", task.exception()
            )  # its client speaks no TLS, or has gone

    def accept() -> None:
        with suppress(OSError):  # none is left, or no file descriptor
            while True:
                connection, _ = own.accept()
                task = loop.create_task(loop.connect_accepted_socket(new_protocol, connection, ssl=tls))
                opening.add(task)
                task.add_done_callback(finish_opening)

    loop.add_reader(own, accept)
    try:
        yield
    finally:
        loop.remove_reader(own)
        own.close()


class GymServer(uvicorn.Server):
    """uvicorn's server on given sockets, which accepts all connections that wait, and speaks only TLS with `tls`.

    It waits for `should_exit` and does not look ten times per second.
    """

    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        super().__init__(config)
        self.server_state = ListenerState()
        self._tls = tls
        self._accepting = ExitStack()

    @property
    def should_exit(self) -> bool:
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._should_exit = value
        if value:
            self._loop.call_soon_threadsafe(self._end.set)  # wakes the loop, also from a signal handler

    async def main_loop(self) -> None:
        await self._end.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.ssl = self._tls
        await super().startup(sockets)
        for listening in sockets or ():
            self._accepting.enter_context(accepting_all(listening, self._new_protocol, self._tls))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accepting.close()
        await super().shutdown(sockets)

    def _new_protocol(self) -> asyncio.Protocol:
        return GymHttpProtocol(self.config, self.server_state, self.lifespan.state)


class Listener:
    """Serves an app on one socket in the running event loop.

    It uses uvicorn's protocol without `uvicorn.Server`, which installs signal handlers, wakes up ten times per second,
    and does not bound the time to stop.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tls: ssl.SSLContext | None = None,
        on_connection: Callable[[], None] | None = None,
    ) -> None:
        """With `tls`, only TLS is spoken."""
        self._tls = tls
        self.state = ListenerState()
        self._config = web_config(app, has_lifespan=False)
        self._on_connection = on_connection
        self._accepting = ExitStack()

    async def start(self, listening: socket.socket) -> None:
        """Accept connections on the bound socket `listening`; `stop` closes it."""
        self._config.load()
        listening.listen(BACKLOG)
        self._accepting.callback(listening.close)
        self._accepting.enter_context(accepting_all(listening, self._new_protocol, self._tls))

    def _new_protocol(self) -> asyncio.Protocol:
        if self._on_connection is not None:
            self._on_connection()
        return GymHttpProtocol(self._config, self.state, {}, asyncio.get_running_loop())

    async def stop(self, grace_s: float) -> None:
        """Close the socket and all connections. Handlers that still run after `grace_s` seconds are cancelled."""
        self._accepting.close()
        for connection in list(self.state.connections):
            connection.transport.abort()
        handlers = list(self.state.tasks)
        if not handlers:
            return
        _, running = await asyncio.wait(handlers, timeout=grace_s)
        for handler in running:
            handler.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@asynccontextmanager
async def listening_on_loopback(app: ASGIApp, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve `app` on a free loopback port of this event loop, and yield its URL: `https` with `tls`."""
    listener = Listener(app, tls=tls)
    listening = socket.create_server(("127.0.0.1", 0))
    await listener.start(listening)
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        await listener.stop(NOTICE_WITHIN_S)
