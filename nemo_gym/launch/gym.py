"""A running gym for library code:

    async with launch(config) as gym:
        await gym.wait_ready()
        print(gym.addresses["my_agent"])

Leaving the block ends every server. This module neither handles signals nor prints; commands do.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch import _logs as logs
from nemo_gym.launch._addresses import Addresses, hold_addresses
from nemo_gym.launch._spawners import ProcessSpawner, Spawner
from nemo_gym.launch._states import RestartPolicy
from nemo_gym.launch._supervisor import STARTUP_TIMEOUT_S, ServerEvent, SupervisedServer, Supervisor
from nemo_gym.launch.early_start import FORKS_ARE_SAFE, start_fork_server
from nemo_gym.launch.environments import Environments
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.plan import HEAD_SCRIPT, RunKeys, plan_servers
from nemo_gym.launch.records import (
    GymRecord,
    Registry,
    RunRecord,
    ServerRecord,
    remove_discovery,
    write_discovery,
)
from nemo_gym.processes.fork_server import ForkServer

if TYPE_CHECKING:
    from nemo_gym.transport import Transport

DEFAULT_LOG_FOLDER = Path(".nemo_gym") / "logs"
INLINE_LOG = "inline.log"
"""The log of servers that share a process."""


class LaunchableConfig(Protocol):
    """The parts of a loaded configuration that a launch needs."""

    @property
    def servers(self) -> Sequence[ServerInstance]: ...
    @property
    def data(self) -> Mapping[str, Any]: ...
    @property
    def code_runners(self) -> Sequence[str]: ...
    def is_given(self, path: str) -> bool:
        """Return whether the user set the value at the dotted `path`."""


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options of a launch."""

    announce: Callable[[str], None] = lambda line: None
    """Receives lines for the user; may be called from another thread."""
    listeners: Sequence[Callable[[ServerEvent], None]] = ()
    """Receive every change of a server's state."""
    working_folder: Path = field(default_factory=Path.cwd)
    """The folder of the discovery file, and of the logs unless the configuration sets another."""
    registry: Registry = field(default_factory=Registry)
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    head_script: Path = HEAD_SCRIPT
    fork_server: ForkServer | None = None
    """A fork server started earlier; the gym ends it."""
    forks: bool = FORKS_ARE_SAFE
    """True forks servers from the fork server; false starts each in a new interpreter."""
    is_inline: bool = False
    """True runs servers in this process's event loop instead of in their own processes."""


class RunningGym:
    """The servers of one configuration, kept running until `stop`."""

    def __init__(
        self,
        config: dict[str, Any],
        addresses: Addresses,
        keys: RunKeys,
        supervisor: Supervisor,
        options: LaunchOptions,
        log_folder: Path,
        transport: Transport | None = None,
    ) -> None:
        self.config = config
        """The resolved configuration with every address, secrets included."""
        self.token = keys.token
        """The token for the control routes of this run."""
        self.log_folder = log_folder
        self.addresses: Mapping[str, tuple[str, ...]] = {
            name: tuple(held.url for held in sockets) for name, sockets in addresses.servers.items()
        }
        """Server name → base URLs, one per replica."""
        self.head_url = addresses.head.url
        self.transport = transport
        """The transport to servers in this process; None if they run in their own processes."""
        self.run = RunRecord(
            pid=os.getpid(),
            token=keys.token,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            head=addresses.head.url,
            logs=str(log_folder),
        )
        self._sockets = addresses
        self._supervisor = supervisor
        self._options = options
        self._is_stopped = False

    @property
    def servers(self) -> tuple[SupervisedServer, ...]:
        return self._supervisor.servers

    @property
    def failure(self) -> asyncio.Future[LaunchError]:
        """Resolves when a server has failed."""
        return self._supervisor.failure

    def begin(self) -> None:
        """Start all servers and write the files that announce the gym."""
        for server in self.servers:
            server.listeners += [*self._options.listeners, self._write_record]
        self._supervisor.start()
        replaced = write_discovery(self._options.working_folder, self.config, self.run)
        if replaced is not None:
            self._options.announce(
                f"the gym of pid {replaced} runs in this folder too; this gym replaces its discovery file"
            )

    async def wait_ready(self) -> None:
        """Wait until every server has answered. Raises the `LaunchError` of one that failed."""
        await self._supervisor.wait_ready()

    async def stop(self) -> None:
        """End every server, release the ports, and remove the files that announce the gym. Idempotent."""
        if self._is_stopped:
            return
        self._is_stopped = True
        try:
            await self._supervisor.stop()
        finally:
            self._sockets.close()
            remove_discovery(self._options.working_folder, self.run)
            self._options.registry.remove(self.run)

    def record(self) -> GymRecord:
        """The current state of the gym."""
        servers = tuple(
            ServerRecord(
                name=server.name,
                kind=server.kind,
                implementation=server.implementation,
                replica=server.replica,
                url=server.url,
                state=server.state,
                pid=server.pid,
                restarts=server.restarts,
                log=str(server.log_path),
            )
            for server in self.servers
        )
        return GymRecord(self.run, str(self._options.working_folder), servers)

    def _write_record(self, event: ServerEvent) -> None:
        if not self._is_stopped:
            self._options.registry.write(self.record())


@contextlib.asynccontextmanager
async def launch(config: LaunchableConfig, options: LaunchOptions | None = None) -> AsyncIterator[RunningGym]:
    """Start the servers of `config`; the block begins before they are ready, and its end stops them.

    Raises `ConfigErrors` for unavailable ports.
    """
    gym = _prepare(config, options or LaunchOptions())
    try:
        gym.begin()
        yield gym
    finally:
        await gym.stop()


def _prepare(config: LaunchableConfig, options: LaunchOptions) -> RunningGym:
    data = copy.deepcopy(dict(config.data))
    addresses = hold_addresses(
        data, config.servers, options.announce, head_port_is_fixed=config.is_given("head_server.port")
    )
    try:
        keys = RunKeys.of_config(data)
        parent = Path(data.get("nemo_gym_log_dir") or options.working_folder / DEFAULT_LOG_FOLDER)
        log_folder = logs.new_log_folder(parent.resolve(), datetime.now())
        logs.prune(log_folder.parent)
        servers = plan_servers(data, config.servers, addresses, keys, log_folder, options.head_script)
        spawner = _spawner(options)
        supervisor = Supervisor(
            servers,
            spawner,
            Environments(options.announce).choose,
            options.policy,
            startup_timeout_s=float(data.get("startup_timeout_s") or STARTUP_TIMEOUT_S),
        )
        if options.is_inline:
            _share_a_log(servers, log_folder)
    except BaseException:
        addresses.close()
        raise
    return RunningGym(data, addresses, keys, supervisor, options, log_folder, spawner.transport)


def _share_a_log(servers: Sequence[SupervisedServer], log_folder: Path) -> None:
    for server in servers:
        server.process = replace(server.process, log_path=log_folder / INLINE_LOG)


def _spawner(options: LaunchOptions) -> Spawner:
    if options.is_inline:
        # Imported here: only inline servers need the server stack in the launcher.
        from nemo_gym.launch._inline_spawner import InlineSpawner

        return InlineSpawner()
    return ProcessSpawner(options.fork_server or start_fork_server(), forks=options.forks)
