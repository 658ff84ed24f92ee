"""A mock engine as a program: it listens, says where, and serves until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import IO

import orjson
import uvloop

from nemo_gym.mock_engine.options import EngineOptions
from nemo_gym.mock_engine.server import MockEngine
from nemo_gym.servers.garbage import collected_rarely


def serve(
    options: EngineOptions,
    announce: Callable[[MockEngine], None],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    lifeline: IO[bytes] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, or until `lifeline` (a pipe) is closed at its other end.

    `announce` is called once, when the engine can be reached. Raises ConfigError for options that can't be used,
    OSError for an address that can't be bound.
    """
    _allow_many_connections()
    engine = MockEngine(options, host=host, port=port)
    uvloop.run(_serve(engine, announce, lifeline))


async def _serve(
    engine: MockEngine, announce: Callable[[MockEngine], None], lifeline: IO[bytes] | None
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if lifeline is not None:
        loop.add_reader(lifeline.fileno(), stopped.set)
    async with engine:
        announce(engine)
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


def main() -> None:
    """Serves the options that come as one line of JSON on standard input, as long as that stays open."""
    options = EngineOptions.model_validate_json(sys.stdin.buffer.readline())

    def announce(engine: MockEngine) -> None:
        sys.stdout.write(ready_line(engine) + "\n")
        sys.stdout.flush()

    serve(options, announce, lifeline=sys.stdin.buffer)


if __name__ == "__main__":
    main()
