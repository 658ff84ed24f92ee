"""The launcher's control port: requests of the head server, which is another process of this machine.

It listens on loopback. A request is one line of JSON with the run's token, and so is its answer.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import GymError
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.sockets import LOOPBACK

log = logging.getLogger(__name__)

_REQUEST_WITHIN_S = 10.0
_REQUEST_BYTES = 1 << 20

Handle = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Carries out a request. Raises `ConfigError` for one that is refused, `GymError` for one that fails."""


class ControlPort:
    """The port, open until `close`."""

    def __init__(self, server: asyncio.Server, tasks: set[asyncio.Task[None]]) -> None:
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        """`host:port`."""
        self._server = server
        self._tasks = tasks

    @classmethod
    async def open(cls, token: str, handle: Handle) -> ControlPort:
        """Listen on a free port."""
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(_serve(reader, writer, token, handle), name="control request")
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            task.add_done_callback(lambda _: writer.close())

        return cls(await asyncio.start_server(accept, LOOPBACK, 0, limit=_REQUEST_BYTES), tasks)

    async def close(self) -> None:
        """Stop the requests that are carried out, and close the port."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, handle: Handle
) -> None:
    try:
        async with asyncio.timeout(_REQUEST_WITHIN_S):
            request = json.loads(await reader.readline())
        given = str(request["token"])
    except (TimeoutError, ValueError, LookupError, TypeError, OSError):
        return  # no head server of this run
    if not hmac.compare_digest(given.encode(), token.encode()):
        return
    writer.write(json.dumps(await _answer(request, handle)).encode() + b"\n")
    await writer.drain()


async def _answer(request: Mapping[str, Any], handle: Handle) -> Mapping[str, Any]:
    try:
        return {"value": await handle(request)}
    except GymError as error:
        # The request was wrong, or else its execution has failed.
        return {"failure": error.failure.to_wire(), "is_refused": isinstance(error, ConfigErrors)}
    except Exception as error:
        log.exception("a request of the head server failed")
        failed = LaunchError(
            f"the launcher failed: {error!r}",
            code="launcher_failed",
            remedy="The output of the command that started the gym has more.",
        )
        return {"failure": failed.failure.to_wire(), "is_refused": False}
