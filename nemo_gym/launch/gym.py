"""A running gym, from the library's side:

    async with launch(config) as gym:
        await gym.wait_ready()
        print(gym.addresses["my_agent"])

Leaving the block ends every server. Nothing of it touches signals or prints; that is the command's business.
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

from nemo_gym.launch import _logs as logs
from nemo_gym.launch._addresses import Addresses, hold_addresses
from nemo_gym.launch._spawners import ProcessSpawner, Spawner
from nemo_gym.launch._states import RestartPolicy
from nemo_gym.launch._supervisor import STARTUP_TIMEOUT_S, ServerEvent, SupervisedServer, Supervisor
from nemo_gym.launch.early_start import FORKS_ARE_SAFE, start_fork_server
from nemo_gym.launch.environments import Environments
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.plan import HEAD_SCRIPT, RunKeys, StartableInstance, plan_servers
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
    """What is needed of a loaded configuration to start its servers."""

    @property
    def servers(self) -> Sequence[StartableInstance]: ...
    @property
    def data(self) -> Mapping[str, Any]: ...
    def is_given(self, path: str) -> bool:
        """Whether somebody wrote the value at the dotted `path`, rather than it being a default."""
        ...


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """How to start, where the defaults are not right."""

    announce: Callable[[str], None] = lambda line: None
    """Gets lines a person should see; may be called from another thread."""
    listeners: Sequence[Callable[[ServerEvent], None]] = ()
    """Told of every change of a server's state."""
    working_folder: Path = field(default_factory=Path.cwd)
    """Gets the discovery file, and the logs unless the configuration puts them elsewhere."""
    registry: Registry = field(default_factory=Registry)
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    head_script: Path = HEAD_SCRIPT
    fork_server: ForkServer | None = None
    """One that was started ahead; the gym ends it."""
    forks: bool = FORKS_ARE_SAFE
    """Whether servers are forks of a warm process; otherwise each loads everything anew."""
    is_inline: bool = False
    """Whether servers run in this process, in its event loop, instead of in processes of their own."""


class Gym:
    """The servers of one configuration, held up until `stop`."""

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
        """Opens the control routes of this run."""
        self.log_folder = log_folder
        self.addresses: Mapping[str, tuple[str, ...]] = {
            name: tuple(held.url for held in sockets) for name, sockets in addresses.servers.items()
        }
        """Server name → base URLs, one per replica."""
        self.head_url = addresses.head.url
        self.transport = transport
        """How servers in this process are reached without a socket; None where they are in processes of their own."""
        self.run = RunRecord(
            pid=os.getpid(),
            token=keys.token,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            head=addresses.head.url,
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
        """Resolves when a server cannot be kept alive."""
        return self._supervisor.failure

    def begin(self) -> None:
        """Start all servers, and tell others of the gym."""
        for server in self.servers:
            server.listeners += [*self._options.listeners, self._write_record]
        self._supervisor.start()
        replaced = write_discovery(self._options.working_folder, self.config, self.run)
        if replaced is not None:
            self._options.announce(
                f"the gym of pid {replaced} runs in this folder too; its discovery file is replaced by ours"
            )

    async def wait_ready(self) -> None:
        """Return when every server has answered. Raises the `LaunchError` of one that cannot be kept alive."""
        await self._supervisor.wait_ready()

    async def stop(self) -> None:
        """End every server, release the ports, remove the files that told others of the gym. Idempotent."""
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
        """How the gym stands now."""
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
async def launch(config: LaunchableConfig, options: LaunchOptions | None = None) -> AsyncIterator[Gym]:
    """Start the servers of `config`; they are being started while the block runs, and ended when it is left.

    Raises `ConfigError` for ports that cannot be had.
    """
    gym = _prepare(config, options or LaunchOptions())
    try:
        gym.begin()
        yield gym
    finally:
        await gym.stop()


def _prepare(config: LaunchableConfig, options: LaunchOptions) -> Gym:
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
    return Gym(data, addresses, keys, supervisor, options, log_folder, spawner.transport)


def _share_a_log(servers: Sequence[SupervisedServer], log_folder: Path) -> None:
    for server in servers:
        server.process = replace(server.process, log_path=log_folder / INLINE_LOG)


def _spawner(options: LaunchOptions) -> Spawner:
    if options.is_inline:
        # Imported here: processes of their own don't need the launcher to know servers.
        from nemo_gym.launch._inline_spawner import InlineSpawner

        return InlineSpawner()
    return ProcessSpawner(options.fork_server or start_fork_server(), forks=options.forks)
