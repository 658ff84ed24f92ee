"""A mock engine as a program: listen, announce the address, and serve until stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
from collections.abc import Callable

import orjson
import uvloop

from nemo_gym.mock_engine.options import EngineOptions
from nemo_gym.mock_engine.server import MockEngine
from nemo_gym.processes import messages
from nemo_gym.processes.program import wait_until_parent_ends
from nemo_gym.serving.garbage import collected_rarely


def serve(
    options: EngineOptions,
    announce: Callable[[MockEngine], None],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    lifeline: socket.socket | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until `lifeline`, the channel of a `Program`, is closed.

    `announce` is called once the engine is reachable. Raises ConfigError for unusable options, OSError for an
    address that cannot be bound.
    """
    _allow_many_connections()
    engine = MockEngine(options, host=host, port=port)
    uvloop.run(_serve(engine, announce, lifeline))


async def _serve(
    engine: MockEngine, announce: Callable[[MockEngine], None], lifeline: socket.socket | None
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with engine:
        announce(engine)
        if lifeline is not None:
            watching = asyncio.create_task(wait_until_parent_ends(lifeline))
            watching.add_done_callback(lambda _: stopped.set())
        with collected_rarely():
            await stopped.wait()


def ready_line(engine: MockEngine) -> str:
    """Return one line of JSON with the engine's URLs, model name and process id."""
    return orjson.dumps(
        {
            "base_url": engine.base_url,
            "root_url": engine.root_url,
            "model": engine.options.model,
            "pid": os.getpid(),
        }
    ).decode()


def _allow_many_connections() -> None:
    """Raise the limit of open files to the hard limit: a capacity test opens thousands of connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError):  # some systems refuse an unlimited limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(channel: socket.socket) -> None:
    """Receive options over the channel of a `Program` and serve until the channel is closed."""
    options = EngineOptions.model_validate(messages.receive(channel))
    serve(
        options, lambda engine: messages.send(channel, (engine.base_url, engine.root_url)), lifeline=channel
    )
