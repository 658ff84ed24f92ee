"""A mock engine as a program: it listens, says where, and serves until it has to stop."""

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
from nemo_gym.processes.program import until_parent_ends
from nemo_gym.serving.garbage import collected_rarely


def serve(
    options: EngineOptions,
    announce: Callable[[MockEngine], None],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    lifeline: socket.socket | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, or until `lifeline`, the channel of a `Program`, is closed.

    `announce` is called once, when the engine can be reached. Raises ConfigError for options that can't be used,
    OSError for an address that can't be bound.
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
            watching = asyncio.create_task(until_parent_ends(lifeline))
            watching.add_done_callback(lambda _: stopped.set())
        with collected_rarely():
            await stopped.wait()


def ready_line(engine: MockEngine) -> str:
    """One line of JSON that tells a program where the engine is."""
    return orjson.dumps(
        {
            "base_url": engine.base_url,
            "root_url": engine.root_url,
            "model": engine.options.model,
            "pid": os.getpid(),
        }
    ).decode()


def _allow_many_connections() -> None:
    """Raises the limit of open files to what this user may have: a capacity test opens thousands."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError):  # an unlimited hard limit can't be asked for everywhere
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(channel: socket.socket) -> None:
    """Serves the options that come over the channel of a `Program`, as long as that stays open."""
    options = EngineOptions.model_validate(messages.receive(channel))
    serve(
        options, lambda engine: messages.send(channel, (engine.base_url, engine.root_url)), lifeline=channel
    )
