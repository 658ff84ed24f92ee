"""Servers on several machines: the placement `hosts` of `ng_run` and `ng_e2e_collect_rollouts`.

The head server runs beside the launcher, every other server on a node. A replica of a lost node is placed on another
one: it gets a new address and a new generation, which the directory publishes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym import PARENT_DIR
from nemo_gym.config.keys import own_address
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch import _logs as logs
from nemo_gym.launch._addresses import Addresses, hold_addresses
from nemo_gym.launch._spawners import Child, NodePlace, ProcessSpawner, ServerProcess
from nemo_gym.launch._supervisor import STARTUP_TIMEOUT_S
from nemo_gym.launch.nodes.gpus import CUDA_VARIABLE
from nemo_gym.launch.nodes.hosts import Hosts
from nemo_gym.launch.nodes.moving import Moving
from nemo_gym.launch.nodes.node import Node, NodeLostError
from nemo_gym.launch.nodes.node_host import NodeDocument
from nemo_gym.launch.nodes.nodes import Nodes
from nemo_gym.launch.nodes.placing import ReplicaKey, check_declared
from nemo_gym.launch.nodes.replicas import Replica, Replicas
from nemo_gym.launch.plan import RunKeys
from nemo_gym.launch.records import NodeRecord
from nemo_gym.launch.sockets import PortRange, hold_free
from nemo_gym.names import HEAD_SERVER
from nemo_gym.tls import context_trusting, read_ca, require_usable, server_context


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
    replicas: Replicas = field(init=False)
    moving: Moving = field(init=False)
    """Both exist as soon as the addresses are held."""
    _nodes: Nodes | None = None

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
        self.replicas = Replicas(config, instances, lambda: self.on_move())
        check_declared({each.key: each.placement for each in self.replicas.all}, self.hosts.keys)
        advertised = config.get("advertised_host") or own_address()
        require_usable(config, advertised)
        config[HEAD_SERVER] = {**config[HEAD_SERVER], "host": bind_host or advertised}
        head = hold_addresses(config, (), self.announce, head_port_is_fixed=head_port_is_fixed).head
        config[HEAD_SERVER]["host"] = advertised
        control = hold_free(bind_host or advertised, PortRange.from_config(config), holder_of="the launcher")
        timeout_s = float(config.get("startup_timeout_s") or STARTUP_TIMEOUT_S)
        document = self._document(instances, keys, advertised, control.port)
        nodes = self._nodes = Nodes(self._new_nodes(), document, self.announce, lambda: self.on_loads())
        tls = context_trusting(read_ca(config))
        self.moving = Moving(self.hosts, nodes, self.announce, timeout_s, tls)
        try:
            await nodes.start(control, timeout_s, server_context(config))
            await self.moving.move_in(self.replicas.all)
            self.replicas.open_directory(self.log_folder / "directory.json")
        except BaseException:
            await self.close()
            head.close()
            control.close()
            raise
        return Addresses(head, self.replicas.addresses)

    async def spawn(self, process: ServerProcess) -> Child:
        given = process.bootstrap
        if given.server_name == HEAD_SERVER:
            return await self.local.spawn(process)
        replica = self.replicas[ReplicaKey(given.server_name, given.replica)]
        while True:
            try:
                if replica.node is None:
                    await self.moving.find_room(replica)
                    self.replicas.update_directory()
                assert replica.node is not None
                child = await replica.node.spawn(process.log_path, **self._request(replica, process))
            except NodeLostError:
                continue  # another node takes it
            child.place = NodePlace(replica.url, replica.node.name, replica.generation)
            return child

    async def close(self) -> None:
        if self._nodes is not None:
            await self._nodes.close()
        await self.hosts.close()
        await self.local.close()

    def node_records(self) -> tuple[NodeRecord, ...]:
        """The current states of the nodes."""
        nodes = self._nodes.nodes if self._nodes is not None else ()
        return tuple(
            NodeRecord(node.name, node.state, node.load, node.losses, node.address, str(node.log_path))
            for node in nodes
        )

    def _document(
        self, instances: Sequence[ServerInstance], keys: RunKeys, host: str, port: int
    ) -> NodeDocument:
        return NodeDocument(
            host=host,
            port=port,
            node="",
            token=keys.token,
            cookie_key=keys.cookie_key,
            config={**self.replicas.config},
            code=_list_code_folders(instances),
            folder=str(self.working_folder),
            moved=self.hosts.moved,
        )

    def _new_nodes(self) -> list[Node]:
        return [
            Node(host, self.hosts, logs.log_path(self.log_folder, f"node_{host.host}", 0, 1), self._lose)
            for host in self.hosts.keys
        ]

    def _lose(self, node: Node) -> None:
        lost = self.replicas.list_replicas_on(node)
        for replica in lost:
            self.hosts.release(replica.key)
        self.replicas.fence(lost)

    def _request(self, replica: Replica, process: ServerProcess) -> dict[str, Any]:
        assert replica.node is not None
        gpus = replica.node.room.gpus.get(replica.key)
        return {
            "server": replica.key.server,
            "replica": replica.key.number,
            "generation": replica.generation,
            "socket": replica.socket,
            "script": str(process.script),
            "search_path": list(process.search_path),
            "variables": {CUDA_VARIABLE: ",".join(map(str, gpus))} if gpus else {},
            "directory": self.replicas.directory,
            "head": self.replicas.config[HEAD_SERVER],
            "addresses": self.replicas.addresses_for(replica),
        }


def _list_code_folders(instances: Sequence[ServerInstance]) -> list[str]:
    """Return the folders whose code must be the same on all machines."""
    return [str(PARENT_DIR / "nemo_gym"), *sorted({str(each.directory.resolve()) for each in instances})]
