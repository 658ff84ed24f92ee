"""A gym run by a command: start, report, wait for a signal or a failed server, stop."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_gym.config.addresses import is_loopback
from nemo_gym.discovery_files import RUN_KEY
from nemo_gym.failures import ConfigError
from nemo_gym.launch._addresses import hold_addresses
from nemo_gym.launch.environments import Environments
from nemo_gym.launch.gym import LaunchableConfig, LaunchOptions, PlacementName, RunningGym, launch
from nemo_gym.launch.plan import REQUIREMENTS_FILE
from nemo_gym.launch.reporting import Reporter
from nemo_gym.names import OPEN_NETWORK, TOKEN_HEADER
from nemo_gym.processes.fork_server import ForkServer
from nemo_gym.transport.directory import list_bound_hosts

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAITING_NOTE_S = 10.0
"""Seconds between two reports of the servers that are still starting."""


WhileUp = Callable[[RunningGym], Coroutine[Any, Any, None]]
"""Runs with a ready gym until it is cancelled."""


async def serve(
    config: LaunchableConfig,
    reporter: Reporter,
    stop: asyncio.Event,
    *,
    began: float,
    fork_server: ForkServer | None,
    while_up: WhileUp | None = None,
    placement: PlacementName = "process",
) -> bool:
    """Run the servers of `config` until `stop` is set.

    `began` is the `time.monotonic()` of the command's start. Returns whether all servers were ready before the stop.
    Raises the `LaunchError` of a server that failed.
    """
    async with running(config, reporter, began=began, fork_server=fork_server, placement=placement) as gym:
        if not await wait_ready_or(stop, gym, reporter, began):
            return False
        await _stay_up(stop, gym, while_up)
    return True


def require_servers(config: LaunchableConfig) -> None:
    """Raise `ConfigError` for a configuration without a server."""
    if not config.servers:
        raise ConfigError(
            "the configuration has no server",
            code="no_server",
            remedy="Name an environment (`gym list` shows all), or files: +config_paths=[FILE].",
        )


def prepare(config: LaunchableConfig, reporter: Reporter) -> None:
    """Do a dry run: hold and release the ports, build the environments, report the processes that would start.

    Raises `ConfigErrors` or `LaunchError` for problems that would prevent the start.
    """
    asyncio.run(_announce_isolation(config, reporter))
    data = copy.deepcopy(dict(config.data))
    head_port_is_fixed = config.is_given("head_server.port")
    hold_addresses(data, config.servers, reporter.announce, head_port_is_fixed=head_port_is_fixed).close()
    environments = Environments(reporter.announce)
    for server in config.servers:
        requirements = server.directory / REQUIREMENTS_FILE
        python = environments.choose(requirements) if requirements.is_file() else None
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
    placement: PlacementName = "process",
) -> AsyncIterator[RunningGym]:
    """A gym whose state changes are reported. The first report names the isolation of code that models write."""
    await _announce_isolation(config, reporter)
    options = LaunchOptions(
        announce=reporter.announce,
        listeners=[lambda event: reporter.server_changed(event, time.monotonic() - began)],
        fork_server=fork_server,
        placement=placement,
    )
    async with launch(config, options) as gym:
        try:
            yield gym
        finally:
            stopping_since = time.monotonic()
            await gym.stop()
            reporter.gym_stopped(time.monotonic() - stopping_since)


async def wait_ready_or(
    stop: asyncio.Event,
    gym: RunningGym,
    reporter: Reporter,
    began: float,
    note_every_s: float = WAITING_NOTE_S,
) -> bool:
    """Wait until every server of `gym` has answered; False if `stop` is set first.

    Some servers load for minutes (up to `startup_timeout_s`), so those still starting are reported periodically.
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
        note = _network_note(gym.config, gym.discovery_file)
        if note is not None:
            reporter.announce(note)
        return True
    finally:
        await _cancel_all(*either)


def _network_note(config: Mapping[str, Any], discovery_file: Path) -> str | None:
    """Return how other machines call the gym; None if they cannot reach it."""
    hosts = sorted({host for host in list_bound_hosts(config) if not is_loopback(host)})
    if not hosts:
        return None
    where = f"servers at {', '.join(hosts)} can be reached from other machines"
    if config.get(OPEN_NETWORK):
        return f"{where} and are open: only control routes require the token (open_network)"
    return (
        f"{where}; every call needs the run's token in the header {TOKEN_HEADER} or as API key. "
        f"It is `{RUN_KEY}.token` in {discovery_file.name}; commands in another folder take +run_token=..."
    )


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that SIGINT, SIGTERM and SIGHUP set, instead of ending the process.

    A signal that this process ignores since its start (`nohup`) stays ignored.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    handled = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


async def _announce_isolation(config: LaunchableConfig, reporter: Reporter) -> None:
    """Report the isolation of code of models. Raises `ConfigErrors` if a server's sandboxes cannot run."""
    if any(server.config.get("sandbox_provider") for server in config.servers):
        from nemo_gym.sandbox.availability import require_providers

        await asyncio.to_thread(require_providers, config.servers, config.data)
    if config.code_runners:
        from nemo_gym.isolation.execution import announcement

        reporter.announce(await announcement(config.code_runners))


async def _stay_up(stop: asyncio.Event, gym: RunningGym, while_up: WhileUp | None) -> None:
    """Wait for `stop`. Raises if a server or `while_up` fails."""
    watched: list[asyncio.Future[Any]] = [asyncio.ensure_future(stop.wait()), gym.failure]
    if while_up is not None:
        watched.append(asyncio.ensure_future(while_up(gym)))
    try:
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel_all(*(future for future in watched if future is not gym.failure))
    if gym.failure in done:
        raise gym.failure.result()
    for future in done:
        future.result()


async def _cancel_all(*futures: asyncio.Future[Any]) -> None:
    """Cancel the futures and wait for their end."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
