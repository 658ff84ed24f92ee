"""Servers on several machines: the placement `hosts` of `ng_run` and `ng_e2e_collect_rollouts`.

The head server runs beside the launcher, every other server on a node. A replica of a lost node is placed on another
one: it gets a new address and a new generation, which the directory publishes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym import PARENT_DIR
from nemo_gym.config.keys import own_address
from nemo_gym.config.servers import ServerInstance
from nemo_gym.config.types import Placement
from nemo_gym.launch import _logs as logs
from nemo_gym.launch._addresses import Addresses, hold_addresses
from nemo_gym.launch._spawners import Child, NodePlace, ProcessSpawner, ServerProcess
from nemo_gym.launch._supervisor import STARTUP_TIMEOUT_S
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.hosts import RAY_FAILED, RAY_IS_GONE, Hosts
from nemo_gym.launch.nodes.node import Node, NodeLostError
from nemo_gym.launch.nodes.node_host import NodeDocument
from nemo_gym.launch.nodes.nodes import Nodes
from nemo_gym.launch.nodes.placing import ReplicaKey, Room, check_declared, place_all, rank_rooms, shown
from nemo_gym.launch.plan import RunKeys
from nemo_gym.launch.records import NodeRecord, write_private
from nemo_gym.launch.sockets import PortRange, hold_free
from nemo_gym.names import DIRECTORY_KEY, HEAD_SERVER
from nemo_gym.transport.directory import aliases_of, base_url

_DIAL_WITHIN_S = 10.0
_UNREACHABLE = "node_unreachable"
_PASSING = (_UNREACHABLE, RAY_FAILED, RAY_IS_GONE)
"""Codes of failures that a later attempt may not have."""
_ROOM_NOTE_S = 5.0
_ROOM_PAUSE_S = 0.5
"""Seconds between two looks for a node with room for a replica."""


@dataclass(slots=True)
class Replica:
    """A replica of a server, and its place."""

    key: ReplicaKey
    instance: ServerInstance
    placement: Placement
    node: Node | None = None
    """None while it has no place."""
    socket: int = 0
    url: str = ""
    generation: int = 1
    """Increases with every loss of its node."""
    is_published: bool = True
    """False until an added replica has answered."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def close(self) -> None:
        """Its socket belongs to its node, which closes it."""


@dataclass(slots=True)
class HostsSpawner:
    """Starts servers on hosts."""

    hosts: Hosts
    local: ProcessSpawner
    """Starts the head server."""
    announce: Callable[[str], None]
    log_folder: Path
    working_folder: Path
    on_move: Callable[[], object] = lambda: None
    """Called when the directory has changed."""
    on_loads: Callable[[], object] = lambda: None
    """Called every few seconds, when the nodes have sent their loads."""
    transport: None = None
    directory: dict[str, Any] = field(default_factory=dict)
    """The value of `_ng_directory`, kept current."""
    nodes: Nodes | None = None
    _replicas: dict[ReplicaKey, Replica] = field(default_factory=dict)
    _addresses: dict[str, list[Replica]] = field(default_factory=dict)
    """The published replicas of each server."""
    _taking: dict[str, int] = field(default_factory=dict)
    """Server → the number of its first replicas that take new sessions, while the others leave."""
    _removed: dict[ReplicaKey, int] = field(default_factory=dict)
    """Removed replica → its last generation, which no other replica of its number may have."""
    _config: dict[str, Any] = field(default_factory=dict)
    _socket_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _timeout_s: float = STARTUP_TIMEOUT_S

    # --- Before the servers start ---------------------------------------------------------------------------------

    async def hold_addresses(
        self,
        config: dict[str, Any],
        instances: Sequence[ServerInstance],
        keys: RunKeys,
        *,
        bind_host: str | None,
        head_port_is_fixed: bool,
    ) -> Addresses:
        """Start the nodes, hold a socket for every replica, and write all addresses into `config`.

        `bind_host`: the address that the launcher's sockets listen on; None for `advertised_host`. Raises
        `ConfigErrors` for replicas that the nodes have no room for, `LaunchError` for a node that does not start.
        """
        self._plan(instances)
        self._config, advertised = config, config.get("advertised_host") or own_address()
        config[HEAD_SERVER] = {**config[HEAD_SERVER], "host": bind_host or advertised}
        head = hold_addresses(config, (), self.announce, head_port_is_fixed=head_port_is_fixed).head
        config[HEAD_SERVER]["host"] = advertised
        control = hold_free(bind_host or advertised, PortRange.of_config(config), holder_of="the launcher")
        self._timeout_s = float(config.get("startup_timeout_s") or STARTUP_TIMEOUT_S)
        document = self._document(instances, keys, advertised, control.port)
        self.nodes = Nodes(self._new_nodes(), document, self.announce, lambda: self.on_loads())
        try:
            await self.nodes.start(control, self._timeout_s)
            await self._place_all()
        except BaseException:
            await self.close()
            head.close()
            control.close()
            raise
        return Addresses(head, self._addresses)

    def _document(
        self, instances: Sequence[ServerInstance], keys: RunKeys, host: str, port: int
    ) -> NodeDocument:
        return NodeDocument(
            host=host,
            port=port,
            node="",
            token=keys.token,
            cookie_key=keys.cookie_key,
            config={**self._config},
            code=_code_of(instances),
            folder=str(self.working_folder),
        )

    def _new_nodes(self) -> list[Node]:
        return [
            Node(host, self.hosts, logs.log_path(self.log_folder, f"node_{host.host}", 0, 1), self._lose)
            for host in self.hosts.keys
        ]

    def _plan(self, instances: Sequence[ServerInstance]) -> None:
        """List the replicas. Raises `ConfigErrors` for needs that the hosts declare too little for."""
        for each in instances:
            placement = Placement.model_validate(each.config.get("placement") or {})
            for number in range(placement.replicas or max(1, each.num_workers)):
                key = ReplicaKey(each.name, number)
                self._replicas[key] = Replica(key, each, placement)
        check_declared(self._wanted(), self.hosts.keys)

    def _wanted(self) -> dict[ReplicaKey, Placement]:
        return {key: replica.placement for key, replica in self._replicas.items()}

    async def _place_all(self) -> None:
        assert self.nodes is not None
        placed = place_all(self._wanted(), [node.room for node in self.nodes.nodes])
        await asyncio.gather(*(self._place(self._replicas[key], room) for key, room in placed.items()))
        for (name, number), replica in self._replicas.items():
            if number == 0:
                self._config[name][replica.instance.kind][replica.instance.implementation].update(
                    _address(replica)
                )
        self.directory |= {"file": str(self.log_folder / "directory.json"), "version": 0}
        self.directory["head"] = base_url(
            self._config[HEAD_SERVER]["host"], self._config[HEAD_SERVER]["port"]
        )
        self._publish()
        self._config[DIRECTORY_KEY] = self.directory

    def node_records(self) -> tuple[NodeRecord, ...]:
        """The current states of the nodes."""
        nodes = self.nodes.nodes if self.nodes is not None else ()
        return tuple(NodeRecord(node.name, node.state, node.load, node.losses) for node in nodes)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration with all addresses."""
        return self._config

    def publish_control(self, address: str) -> None:
        """Let the head server know the launcher's control port."""
        self.directory["control"] = address
        self._publish()

    # --- Replicas that are added and removed ----------------------------------------------------------------------

    def published(self, server: str) -> Sequence[Replica]:
        """Return the replicas of a server, in the order of their numbers."""
        return tuple(self._addresses[server])

    async def add(self, server: str, count: int) -> list[Replica]:
        """Hold sockets for more replicas. They are not published yet.

        Raises `ConfigErrors` if the nodes have no room for all of them, `LaunchError` if a socket is not reached.
        """
        assert self.nodes is not None
        known = self._addresses[server]
        keys = [ReplicaKey(server, len(known) + number) for number in range(count)]
        added = {
            key: Replica(
                key,
                known[0].instance,
                known[0].placement,
                generation=self._removed.get(key, 0) + 1,
                is_published=False,
            )
            for key in keys
        }
        self._replicas |= added
        try:
            wanted = {key: replica.placement for key, replica in added.items()}
            placed = place_all(wanted, [node.room for node in self.nodes.nodes if node.is_up])
            holding = (self._place(added[key], room) for key, room in placed.items())
            for outcome in await asyncio.gather(*holding, return_exceptions=True):
                if outcome is not None:
                    raise outcome
        except BaseException:
            self.retire(list(added.values()))
            await self.release(list(added.values()))
            raise
        return list(added.values())

    def publish(self, added: Sequence[Replica]) -> None:
        """Let added replicas take new sessions."""
        for replica in added:
            replica.is_published = True
        self._publish()

    def drain(self, server: str, staying: int) -> None:
        """Let only the first replicas take new sessions."""
        self._taking[server] = staying
        self._publish()

    def retire(self, replicas: Sequence[Replica]) -> None:
        """Take replicas out of the directory. Their processes must end now."""
        for replica in replicas:
            del self._replicas[replica.key]
            if replica.is_published:
                self._removed[replica.key] = replica.generation
            self._taking.pop(replica.key.server, None)
        self._publish()

    async def release(self, replicas: Sequence[Replica]) -> None:
        """Close the sockets of retired replicas whose processes have ended, and free their room."""
        for replica in replicas:
            if replica.node is not None:
                with contextlib.suppress(NodeLostError):  # its sockets are closed
                    await replica.node.ask("release", socket=replica.socket)
            self.hosts.release(replica.key)
        for node in self.nodes.nodes if self.nodes is not None else ():
            for replica in replicas:
                node.room.leave(replica.key)

    # --- A replica ------------------------------------------------------------------------------------------------

    async def spawn(self, process: ServerProcess) -> Child:
        given = process.bootstrap
        if given.server_name == HEAD_SERVER:
            return await self.local.spawn(process)
        replica = self._replicas[ReplicaKey(given.server_name, given.replica)]
        while True:
            try:
                if replica.node is None:
                    await self._find_room(replica)
                    self._publish()
                assert replica.node is not None
                child = await replica.node.spawn(process.log_path, **self._request(replica, process))
            except NodeLostError:
                continue  # another node takes it
            child.place = NodePlace(replica.url, replica.node.name, replica.generation)
            return child

    async def close(self) -> None:
        if self.nodes is not None:
            await self.nodes.close()
        await self.hosts.close()
        await self.local.close()

    def _request(self, replica: Replica, process: ServerProcess) -> dict[str, Any]:
        assert replica.node is not None
        firsts = [each for key, each in self._replicas.items() if key.number == 0 and key != replica.key]
        gpus = replica.node.room.gpus.get(replica.key)
        return {
            "server": replica.key.server,
            "replica": replica.key.number,
            "generation": replica.generation,
            "socket": replica.socket,
            "script": str(process.script),
            "search_path": list(process.search_path),
            "variables": {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))} if gpus else {},
            "directory": self.directory,
            "head": self._config[HEAD_SERVER],
            "addresses": [
                (each.instance.name, each.instance.kind, each.instance.implementation, _address(each))
                for each in (*(first for first in firsts if first.key.server != replica.key.server), replica)
            ],
        }

    async def _hold(self, replica: Replica, node: Node) -> None:
        """Hold a socket for the replica on `node`, and prove that it is reached. Raises `LaunchError`."""
        block = replica.instance.config
        replica.socket = next(self._socket_numbers)
        held = await node.ask(
            "hold",
            socket=replica.socket,
            server=replica.key.server,
            host=block.get("host"),
            port=block.get("port") if replica.key.number == 0 else None,
        )
        try:
            await _dial_back(node, replica.key.server, held["port"], held["proof"])
        except LaunchError:
            node.release(replica.socket)
            raise
        replica.node, replica.url = node, base_url(node.address, held["port"])

    async def _place(self, replica: Replica, room: Room) -> None:
        """Place the replica where `room` is taken for it, or elsewhere. Raises `LaunchError` if no node has room."""
        if not await self._move_in(replica, room):
            await self._find_room(replica)

    async def _find_room(self, replica: Replica) -> None:
        """Place the replica on a node with room. Raises `LaunchError` if none has room for too long."""
        began, is_announced = asyncio.get_running_loop().time(), False
        while not await self._take_room(replica):
            waited_s = asyncio.get_running_loop().time() - began
            if waited_s > self._timeout_s:
                raise LaunchError(
                    f"no node has room for `{replica.key.server}` since {self._timeout_s:g} s",
                    code="no_room",
                    remedy="Bring the lost hosts back, or lower its `placement`.",
                    peer=replica.key.server,
                )
            if waited_s > _ROOM_NOTE_S and not is_announced:
                self.announce(
                    f"{replica.key.server} waits for a node with {shown(replica.placement.needs)} free"
                )
                is_announced = True
            await asyncio.sleep(_ROOM_PAUSE_S)

    async def _take_room(self, replica: Replica) -> bool:
        """Place the replica on a node, and return whether one has room and is reached."""
        assert self.nodes is not None
        rooms = [node.room for node in self.nodes.nodes if node.is_up]
        for room in rank_rooms(replica.key, replica.placement, rooms):
            room.take(replica.key, replica.placement)
            if await self._move_in(replica, room):
                return True
        return False

    async def _move_in(self, replica: Replica, room: Room) -> bool:
        """Use the room that is taken for the replica. Return False and leave it if it is in use, or not reached."""
        assert self.nodes is not None
        node = next(node for node in self.nodes.nodes if node.name == room.name)
        try:
            gpus = await self.hosts.reserve(room.name, replica.key, replica.placement.needs)
            if gpus is None:
                room.leave(replica.key)
                return False
            if gpus:
                room.gpus[replica.key] = gpus
            await self._hold(replica, node)
        except BaseException as error:
            room.leave(replica.key)
            self.hosts.release(replica.key)
            if isinstance(error, LaunchError) and error.failure.code in _PASSING and replica.url:
                # The node was reached before: it is being lost too, or comes back.
                self.announce(f"{error.failure.message}; another attempt follows")
                return False
            raise
        return True

    def _lose(self, node: Node) -> None:
        """Fence the replicas of a lost node: calls to their generation fail from now on."""
        lost = [replica for replica in self._replicas.values() if replica.node is node]
        for replica in lost:
            replica.node = None
            replica.generation += 1
            self.hosts.release(replica.key)
        if lost:
            self._publish()

    def _publish(self) -> None:
        self._addresses.clear()
        for key, replica in self._replicas.items():
            if replica.is_published:
                self._addresses.setdefault(key.server, []).append(replica)
        servers = {
            name: [[replica.url, replica.generation] for replica in replicas]
            for name, replicas in self._addresses.items()
        }
        taking = {**self._taking}
        for alias, agent in aliases_of(self._config):
            if agent in servers:
                servers[alias] = servers[agent]
            if agent in taking:
                taking[alias] = taking[agent]
        version = self.directory["version"] + 1
        self.directory |= {"version": version, "servers": servers, "taking": taking}
        write_private(Path(self.directory["file"]), json.dumps(self.directory))
        self.on_move()


def _code_of(instances: Sequence[ServerInstance]) -> list[str]:
    """Return the folders whose code must be the same on all machines."""
    return [str(PARENT_DIR / "nemo_gym"), *sorted({str(each.directory.resolve()) for each in instances})]


def _address(replica: Replica) -> dict[str, Any]:
    host = replica.url.removeprefix("http://").rpartition(":")[0]
    return {"host": host.strip("[]"), "port": replica.port}


async def _dial_back(node: Node, server: str, port: int, proof: str) -> None:
    """Connect to a held socket under its advertised address. Raises `LaunchError` unless it answers with `proof`."""
    problem = "another program answers there"
    try:
        async with asyncio.timeout(_DIAL_WITHIN_S):
            reader, writer = await asyncio.open_connection(node.address, port)
            found = await reader.read()
            writer.close()
        if found.decode(errors="replace") == proof:
            return
    except (OSError, TimeoutError) as error:
        problem = str(error) or f"no answer within {_DIAL_WITHIN_S:g} s"
    raise LaunchError(
        f"`{server}` on {node.name} cannot be reached at {node.address}:{port}: {problem}",
        code=_UNREACHABLE,
        remedy="Open the ports between the machines (port_range_low, port_range_high), or correct the server's `host`.",
        peer=node.name,
    )
