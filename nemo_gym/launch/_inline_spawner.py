"""Servers in the launcher's own process: the `inline` placement of `ng_run` and `ng_e2e_collect_rollouts`.

They listen on their held sockets, so that trainers, `ng_status` and tools can call them by URL. Calls between them go
through memory. A server that blocks the event loop blocks all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import ssl
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from nemo_gym.config import bootstrap
from nemo_gym.config.current import set_global_config_dict
from nemo_gym.failures import ConfigError
from nemo_gym.head.server import HeadServer
from nemo_gym.launch._implementation import load_server_class
from nemo_gym.launch._spawners import Child, ServerProcess
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.plan import HEAD_SCRIPT
from nemo_gym.launch.sockets import HeldSocket
from nemo_gym.names import CANNOT_START
from nemo_gym.serving.base import SimpleServer
from nemo_gym.serving.garbage import collected_rarely
from nemo_gym.serving.listening import GymServer, web_config
from nemo_gym.serving.log_lines import LogFormatter
from nemo_gym.tls import server_context
from nemo_gym.transport import InMemoryTransport
from nemo_gym.transport.http import raise_file_limit
from nemo_gym.transport.pools import close_transports
from nemo_gym.transport.server_client import ServerClient

log = logging.getLogger(__name__)

_END_S = 1.0
"""Seconds that cancelled servers have to end."""


class InlineSpawner:
    """Starts servers as tasks of the running event loop."""

    def __init__(self) -> None:
        self.transport = InMemoryTransport()
        """Calls between the servers, and from a collector in this process, use it."""
        self._classes: dict[Path, type[SimpleServer]] = {HEAD_SCRIPT: HeadServer}
        self._children: list[_InlineChild] = []
        self._opened = contextlib.ExitStack()

    async def spawn(self, process: ServerProcess) -> Child:
        if process.python is not None:
            raise LaunchError(
                f"`{process.bootstrap.server_name}` needs its own environment: its requirements.txt is not satisfied",
                code="not_inline",
                remedy="Install its requirements, or run each server in its own process: +placement=process.",
                peer=process.bootstrap.server_name,
            )
        if not self._children:
            self._open(process)
        child = _InlineChild(lambda child: self._serve(process, child))
        self._children.append(child)
        return child

    async def close(self) -> None:
        for child in self._children:
            child.signal(signal.SIGKILL)
        if self._children:
            _, pending = await asyncio.wait([child.task for child in self._children], timeout=_END_S)
            if pending:
                log.warning("%d servers did not end within %g s and keep running", len(pending), _END_S)
        await self.transport.close()
        await close_transports()
        self._opened.close()

    def _open(self, process: ServerProcess) -> None:
        """Set up the environment that a server process has, once for all servers."""
        raise_file_limit()
        self._opened.enter_context(_log_into(process.log_path))
        self._opened.enter_context(collected_rarely())
        bootstrap.set_current(process.bootstrap)
        self._opened.callback(bootstrap.set_current, None)
        set_global_config_dict(process.bootstrap.global_config)
        self._opened.callback(set_global_config_dict, None)

    async def _serve(self, process: ServerProcess, child: _InlineChild) -> None:
        given = process.bootstrap
        server_class = self._load_class(process.script)
        client = ServerClient.connect(given.global_config, transport=self.transport, token=given.run_token)
        config = server_class.build_server_config(given.server_name, given.global_config)
        server = server_class(config=config, server_client=client)
        app = server.finish_app()
        async with server.alive():
            for held in process.sockets:
                self.transport.apps[held.url] = app
            gc.freeze()
            await child.serve(app, process.sockets, server_context(given.global_config))

    def _load_class(self, script: Path) -> type[SimpleServer]:
        if script not in self._classes:
            self._classes[script] = load_server_class(script)
        return self._classes[script]


class _SignallessServer(GymServer):
    """A server without signal handlers; the launcher handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _InlineChild(Child):
    """A server as a task: SIGTERM stops it, SIGKILL cancels it."""

    def __init__(self, run: Callable[[_InlineChild], Coroutine[Any, Any, None]]) -> None:
        super().__init__(os.getpid(), self._receive)
        self._server: _SignallessServer | None = None
        self._is_stopping = False
        self.task = asyncio.create_task(run(self))
        self.task.add_done_callback(self._end)

    async def serve(self, app: FastAPI, sockets: Sequence[HeldSocket], tls: ssl.SSLContext | None) -> None:
        """Serve until SIGTERM, then finish the requests in flight."""
        self._server = _SignallessServer(web_config(app), tls)
        self._server.should_exit = self._is_stopping
        # Copies: the server closes its sockets, and the launcher keeps its own.
        await self._server.serve([listener.dup() for held in sockets for listener in held.listeners])

    def _receive(self, number: int) -> None:
        if number == signal.SIGKILL:
            self.task.cancel()
            return
        self._is_stopping = True
        if self._server is not None:
            self._server.should_exit = True

    def _end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a server failed", exc_info=error)
        if not self.exited.done():
            code = CANNOT_START if isinstance(error, ConfigError) else 1
            self.exited.set_result(0 if error is None else code)


@contextlib.contextmanager
def _log_into(path: Path) -> Iterator[None]:
    """Write this process's log to `path`, in addition to its current handlers."""
    file = logging.FileHandler(path)
    file.setFormatter(LogFormatter())
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    root.handlers = [file, *(handlers or filter(None, [logging.lastResort]))]
    root.setLevel(min(level, logging.INFO))
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)
        file.close()
