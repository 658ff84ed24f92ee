"""A gym as a command runs it: start, say how it stands, stay until a signal or a server's failure, stop."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

from nemo_gym.launch._addresses import hold_addresses
from nemo_gym.launch.environments import Environments
from nemo_gym.launch.gym import Gym, LaunchableConfig, LaunchOptions, launch
from nemo_gym.launch.plan import REQUIREMENTS_FILE
from nemo_gym.launch.reporting import Reporter
from nemo_gym.processes.fork_server import ForkServer

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAITING_NOTE_S = 10.0
"""How often the servers that are still starting are named."""


WhileUp = Callable[[Gym], Coroutine[Any, Any, None]]
"""What to do with a gym that is up, until it is cancelled."""


async def serve(
    config: LaunchableConfig,
    reporter: Reporter,
    stop: asyncio.Event,
    *,
    began: float,
    fork_server: ForkServer | None,
    while_up: WhileUp | None = None,
    is_inline: bool = False,
) -> bool:
    """Run the servers of `config` until `stop` is set.

    `began` is the `time.monotonic()` of the command's begin. Gives whether all servers were ready before the stop.
    Raises the `LaunchError` of a server that cannot be kept alive.
    """
    async with running(config, reporter, began=began, fork_server=fork_server, is_inline=is_inline) as gym:
        if not await wait_ready_or(stop, gym, reporter, began):
            return False
        await _stay_up(stop, gym, while_up)
    return True


def prepare(config: LaunchableConfig, reporter: Reporter) -> None:
    """Everything short of starting: hold and release the ports, build the environments, say what would run.

    Raises `ConfigError` or `LaunchError` for what would keep the servers from starting.
    """
    data = copy.deepcopy(dict(config.data))
    head_port_is_fixed = config.is_given("head_server.port")
    hold_addresses(data, config.servers, reporter.announce, head_port_is_fixed=head_port_is_fixed).close()
    environments = Environments(reporter.announce)
    for server in config.servers:
        requirements = server.directory / REQUIREMENTS_FILE
        python = environments.choose_now(requirements) if requirements.is_file() else None
        reporter.announce(
            f"{server.name}: {server.directory / server.entrypoint} by {python or sys.executable}"
        )


@contextlib.asynccontextmanager
async def running(
    config: LaunchableConfig,
    reporter: Reporter,
    *,
    began: float,
    fork_server: ForkServer | None,
    is_inline: bool = False,
) -> AsyncIterator[Gym]:
    """A gym whose every change is reported."""
    options = LaunchOptions(
        announce=reporter.announce,
        listeners=[lambda event: reporter.server_changed(event, time.monotonic() - began)],
        fork_server=fork_server,
        is_inline=is_inline,
    )
    async with launch(config, options) as gym:
        try:
            yield gym
        finally:
            stopping_since = time.monotonic()
            await gym.stop()
            reporter.gym_stopped(time.monotonic() - stopping_since)


async def wait_ready_or(
    stop: asyncio.Event, gym: Gym, reporter: Reporter, began: float, note_every_s: float = WAITING_NOTE_S
) -> bool:
    """Wait until every server of `gym` has answered; False when `stop` comes first.

    Some servers load for minutes (`startup_timeout_s` bounds that). Those that are waited for are named now and then.
    """
    ready = asyncio.ensure_future(gym.wait_ready())
    stopped = asyncio.ensure_future(stop.wait())
    either: list[asyncio.Future[Any]] = [ready, stopped]
    try:
        while not any(future.done() for future in either):
            await asyncio.wait(either, timeout=note_every_s, return_when=asyncio.FIRST_COMPLETED)
            late = [server.name for server in gym.servers if not server.has_answered.is_set()]
            if late and not any(future.done() for future in either):
                reporter.still_waiting(late, time.monotonic() - began)
        if not ready.done():
            return False
        ready.result()
        reporter.gym_ready(gym, time.monotonic() - began)
        return True
    finally:
        await _cancelled(*either)


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C, SIGTERM and the terminal's end set, in place of what they do otherwise.

    A signal that this process was started to ignore (`nohup`) stays ignored.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    heeded = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)


async def _stay_up(stop: asyncio.Event, gym: Gym, while_up: WhileUp | None) -> None:
    """Return at `stop`. Raises when a server fails for good, or `while_up` does."""
    watched: list[asyncio.Future[Any]] = [asyncio.ensure_future(stop.wait()), gym.failure]
    if while_up is not None:
        watched.append(asyncio.ensure_future(while_up(gym)))
    try:
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancelled(*(future for future in watched if future is not gym.failure))
    if gym.failure in done:
        raise gym.failure.result()
    for future in done:
        future.result()


async def _cancelled(*futures: asyncio.Future[Any]) -> None:
    """Cancel what is still running and wait for its end."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
