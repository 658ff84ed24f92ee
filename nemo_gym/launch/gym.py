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
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from nemo_gym.config.ray_environment import refuse_without_ray
from nemo_gym.config.servers import ServerInstance
from nemo_gym.discovery_files import NO_NAME, discovery_path
from nemo_gym.launch import _logs as logs
from nemo_gym.launch._addresses import Addresses, hold_addresses
from nemo_gym.launch._spawners import ProcessSpawner, Spawner
from nemo_gym.launch._states import RestartPolicy
from nemo_gym.launch._supervisor import (
    STARTUP_TIMEOUT_S,
    ChooseInterpreter,
    ServerEvent,
    SupervisedServer,
    Supervisor,
)
from nemo_gym.launch.control import ControlPort
from nemo_gym.launch.early_start import FORKS_ARE_SAFE, start_fork_server
from nemo_gym.launch.environments import Environments
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.plan import HEAD_SCRIPT, RunKeys, ServerPlan
from nemo_gym.launch.records import (
    GymRecord,
    NodeRecord,
    Registry,
    RunRecord,
    ServerRecord,
    discovery_text,
    remove_discovery,
    write_discovery,
    write_private,
)
from nemo_gym.launch.server_code import describe_code
from nemo_gym.names import CODE_KEY, HEAD_SERVER, NODES_FILE
from nemo_gym.processes.fork_server import ForkServer
from nemo_gym.tls import read_ca

if TYPE_CHECKING:
    from nemo_gym.launch.nodes.history import NodeHistory
    from nemo_gym.launch.nodes.hosts import Hosts
    from nemo_gym.launch.nodes.hosts_spawner import HostsSpawner
    from nemo_gym.launch.nodes.replicas import Replica
    from nemo_gym.transport import Transport

PlacementName: TypeAlias = Literal["process", "inline", "hosts", "ray"]
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
    placement: PlacementName = "process"
    """`inline` runs servers in this process's event loop, `hosts` on the machines of the configuration, `ray`
    on the nodes of a Ray cluster."""


class RunningGym:
    """The servers of one configuration, kept running until `stop`."""

    def __init__(
        self,
        plan: ServerPlan,
        addresses: Addresses,
        supervisor: Supervisor,
        options: LaunchOptions,
        transport: Transport | None = None,
    ) -> None:
        self.config = plan.config
        """The resolved configuration with every address, secrets included."""
        self.token = plan.keys.token
        """The token for the control routes of this run."""
        self.log_folder = plan.log_folder
        self.head_url = addresses.head.url
        self.transport = transport
        """The transport to servers in this process; None if they run in their own processes."""
        self.run = RunRecord(
            pid=os.getpid(),
            token=self.token,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            head=addresses.head.url,
            logs=str(self.log_folder),
            ca=read_ca(self.config),
        )
        self.nodes: Callable[[], tuple[NodeRecord, ...]] = tuple
        """Returns the current states of its machines; none if its servers run on this one."""
        self.history: NodeHistory | None = None
        """The record of its machines for the viewer; None if its servers run on this one."""
        self.control: ControlPort | None = None
        """The port for requests of the head server; None if there are none to make."""
        self.discovery_name = NO_NAME
        """Its name among the gyms of the working folder."""
        self._is_announced = False
        self._sockets = addresses
        self._supervisor = supervisor
        self._options = options
        self._is_stopped = False

    @property
    def addresses(self) -> Mapping[str, tuple[str, ...]]:
        """Server name → base URLs, one per replica."""
        return {
            name: tuple(held.url for held in replicas) for name, replicas in self._sockets.servers.items()
        }

    @property
    def servers(self) -> tuple[SupervisedServer, ...]:
        return tuple(self._supervisor.servers)

    @property
    def failure(self) -> asyncio.Future[LaunchError]:
        """Resolves when a server has failed."""
        return self._supervisor.failure

    @property
    def discovery_file(self) -> Path:
        return discovery_path(self._options.working_folder, self.discovery_name)

    def begin(self) -> None:
        """Write the files that announce the gym and start all servers. Raises `ConfigError` for a taken name."""
        self.listen_to(self.servers)
        wanted = self.config.get("discovery_name")
        self.discovery_name = write_discovery(self._options.working_folder, self.config, self.run, wanted)
        self._is_announced = True
        if self.discovery_name and not wanted:
            self._options.announce(
                "another gym runs in this folder, so the discovery name of this one is "
                f"{self.discovery_name!r}: commands take +discovery_name={self.discovery_name}"
            )
        self._supervisor.start()
        if self.history is not None:
            self.history.begin()

    def listen_to(self, servers: Sequence[SupervisedServer]) -> None:
        """Report and record the changes of servers."""
        for server in servers:
            server.listeners += [*self._options.listeners, lambda event: self.write_record()]

    def rewrite_discovery(self) -> None:
        """Write the discovery file again, because addresses have changed."""
        if self._is_announced:
            write_private(self.discovery_file, discovery_text(self.config, self.run))

    async def wait_ready(self) -> None:
        """Wait until every server has answered. Raises the `LaunchError` of one that failed."""
        await self._supervisor.wait_ready()

    async def stop(self) -> None:
        """End every server, release the ports, and remove the files that announce the gym. Idempotent."""
        if self._is_stopped:
            return
        self._is_stopped = True
        try:
            if self.history is not None:
                await self.history.close()  # before the nodes end, which is no loss
            if self.control is not None:
                await self.control.close()
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
                node=server.place.node,
                generation=server.place.generation,
            )
            for server in self.servers
        )
        folder = str(self._options.working_folder)
        return GymRecord(self.run, folder, servers, self.discovery_name, self.nodes())

    def write_record(self) -> None:
        """Write the gym's record, because the state of a server or the load of a machine has changed."""
        if self._is_stopped:
            return
        record = self.record()
        self._options.registry.write(record)
        if self.history is not None:
            self.history.note(record)


@contextlib.asynccontextmanager
async def launch(config: LaunchableConfig, options: LaunchOptions | None = None) -> AsyncIterator[RunningGym]:
    """Start the servers of `config`; the block begins before they are ready, and its end stops them.

    Raises `ConfigErrors` for unavailable ports.
    """
    gym = await _prepare(config, options or LaunchOptions())
    try:
        gym.begin()
        yield gym
    finally:
        await gym.stop()


async def _prepare(config: LaunchableConfig, options: LaunchOptions) -> RunningGym:
    data = copy.deepcopy(dict(config.data))
    data[CODE_KEY] = describe_code(config.servers, options.working_folder)
    keys = RunKeys.from_config(data)
    if options.placement != "ray":
        refuse_without_ray(data)
    if options.placement in ("hosts", "ray"):
        plan = ServerPlan(data, keys, _new_log_folder(data, options))
        return await _prepare_on_hosts(config, plan, options)
    addresses = hold_addresses(
        data, config.servers, options.announce, head_port_is_fixed=config.is_given("head_server.port")
    )
    try:
        plan = ServerPlan(data, keys, _new_log_folder(data, options))
        spawner = _spawner(options)
        choose = Environments(options.announce).choose
        supervisor = _supervisor(config, plan, addresses, options, spawner, choose)
        if options.placement == "inline":
            _share_a_log(supervisor.servers, plan.log_folder)
    except BaseException:
        addresses.close()
        raise
    return RunningGym(plan, addresses, supervisor, options, spawner.transport)


def _new_log_folder(data: Mapping[str, Any], options: LaunchOptions) -> Path:
    parent = Path(data.get("nemo_gym_log_dir") or options.working_folder / DEFAULT_LOG_FOLDER)
    folder = logs.new_log_folder(parent.resolve(), datetime.now())
    logs.prune(folder.parent)
    return folder


async def _prepare_on_hosts(config: LaunchableConfig, plan: ServerPlan, options: LaunchOptions) -> RunningGym:
    # Imported here: the other placements need no nodes.
    from nemo_gym.launch.nodes.history import NodeHistory
    from nemo_gym.launch.nodes.hosts_spawner import HostsSpawner

    data, log_folder = plan.config, plan.log_folder
    hosts = await _hosts(data, options, log_folder)
    local = ProcessSpawner(options.fork_server or start_fork_server(), forks=options.forks)
    spawner = HostsSpawner(hosts, local, options.announce, log_folder, options.working_folder)
    try:
        addresses = await spawner.hold_addresses(
            data,
            config.servers,
            plan.keys,
            bind_host=data[HEAD_SERVER]["host"] if config.is_given("head_server.host") else None,
            head_port_is_fixed=config.is_given("head_server.port"),
        )
        supervisor = _supervisor(config, plan, addresses, options, spawner, lambda _: None)
    except BaseException:
        await spawner.close()
        raise
    gym = RunningGym(plan, addresses, supervisor, options)
    gym.nodes = spawner.node_records
    history = gym.history = NodeHistory(log_folder / NODES_FILE, gym.record, options.announce)
    spawner.on_move, spawner.on_loads = gym.rewrite_discovery, gym.write_record
    await _let_scale(gym, history, spawner, supervisor, plan, options)
    return gym


async def _let_scale(
    gym: RunningGym,
    history: NodeHistory,
    spawner: HostsSpawner,
    supervisor: Supervisor,
    plan: ServerPlan,
    options: LaunchOptions,
) -> None:
    """Open the control port, at which replicas are added and removed."""
    from nemo_gym.launch.nodes.scaling import Scaling

    def plan_more(replicas: Sequence[Replica]) -> list[SupervisedServer]:
        first = replicas[0]
        servers = list(plan.build_replicas(first.instance, replicas, first.key.number))
        gym.listen_to(servers)
        return servers

    scaling = Scaling(
        spawner.replicas, spawner.moving, supervisor, plan_more, options.announce, gym.write_record, gym.token
    )

    async def scale(request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = await scaling.handle(request)
        for server, change in answer["servers"].items():
            history.note_scaled(server, change["before"], change["after"], len(change["lost_sessions"]))
        return answer

    gym.control = await ControlPort.open(gym.token, scale)
    spawner.replicas.publish_control(gym.control.address)


async def _hosts(data: dict[str, Any], options: LaunchOptions, log_folder: Path) -> Hosts:
    if options.placement == "ray":
        from nemo_gym.launch.nodes.ray_hosts import RayHosts

        nodes = await RayHosts.connect(data, log_folder, options.working_folder)
        data["advertised_host"] = data.get("advertised_host") or nodes.own_address
        return nodes
    from nemo_gym.launch.nodes.hosts import CommandHosts

    return CommandHosts(data)


def _supervisor(
    config: LaunchableConfig,
    plan: ServerPlan,
    addresses: Addresses,
    options: LaunchOptions,
    spawner: Spawner,
    choose_interpreter: ChooseInterpreter,
) -> Supervisor:
    return Supervisor(
        plan.servers(config.servers, addresses, options.head_script),
        spawner,
        choose_interpreter,
        options.policy,
        startup_timeout_s=float(plan.config.get("startup_timeout_s") or STARTUP_TIMEOUT_S),
    )


def _share_a_log(servers: Sequence[SupervisedServer], log_folder: Path) -> None:
    for server in servers:
        server.process = replace(server.process, log_path=log_folder / INLINE_LOG)


def _spawner(options: LaunchOptions) -> Spawner:
    if options.placement == "inline":
        # Imported here: only inline servers need the server stack in the launcher.
        from nemo_gym.launch._inline_spawner import InlineSpawner

        return InlineSpawner()
    return ProcessSpawner(options.fork_server or start_fork_server(), forks=options.forks)
