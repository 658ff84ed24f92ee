"""The way of a replica to a node, without processes. `test_hosts_spawner` has node hosts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config.types import Placement
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.hosts import CommandHosts
from nemo_gym.launch.nodes.moving import Moving
from nemo_gym.launch.nodes.node import Node, NodeState
from nemo_gym.launch.nodes.node_host import NodeDocument
from nemo_gym.launch.nodes.nodes import Nodes
from nemo_gym.launch.nodes.placing import ReplicaKey, Room
from nemo_gym.launch.nodes.replicas import Replica
from tests.launch.small_servers import Workbench


class UnreachedNode(Node):
    """A node that answers on its connection while its sockets are out of reach."""

    def __init__(self, folder: Path) -> None:
        hosts = CommandHosts({"hosts": ["first"]})
        super().__init__(hosts.keys[0], hosts, folder / "node.log", lambda node: None)
        self.state, self.address, self.room = NodeState.UP, "127.0.0.1", Room("first", {"num_cpus": 1.0})
        self.released: list[int] = []

    async def ask(self, kind: str, **fields: Any) -> Any:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            return {"port": closed.getsockname()[1], "proof": "proof"}

    def release(self, socket: int) -> None:
        self.released.append(socket)


def moving_to(node: Node, bench: Workbench, timeout_s: float = 0.0) -> Moving:
    document = NodeDocument("127.0.0.1", 0, "", "token", "cookie", {}, [], "")
    nodes = Nodes([node], document, bench.lines.append)
    return Moving(CommandHosts({"hosts": ["first"]}), nodes, bench.lines.append, timeout_s)


def replica_of(bench: Workbench, url: str = "", cpus: float = 1) -> Replica:
    return Replica(ReplicaKey("env", 0), bench.instance("env"), Placement(num_cpus=cpus), url=url)


async def test_a_node_that_is_cut_off_while_a_replica_moves_there_is_tried_again(bench: Workbench) -> None:
    node, replica = UnreachedNode(bench.folder), replica_of(bench, "http://127.0.0.1:1")
    with pytest.raises(LaunchError, match="no node has room for `env` since 0 s"):
        await moving_to(node, bench).find_room(replica)
    assert node.room.replicas == {}
    assert replica.node is None
    assert node.released == [replica.socket]
    assert "`env` on first cannot be reached" in bench.lines[0]


async def test_a_replica_whose_first_socket_is_not_reached_ends_the_start(bench: Workbench) -> None:
    node, replica = UnreachedNode(bench.folder), replica_of(bench)
    with pytest.raises(LaunchError, match="`env` on first cannot be reached at 127"):
        await moving_to(node, bench).move_in([replica])
    assert node.room.replicas == {}
    assert node.released == [replica.socket]


async def test_replicas_without_room_are_refused_before_a_socket_is_held(bench: Workbench) -> None:
    node = UnreachedNode(bench.folder)
    with pytest.raises(ConfigErrors, match="env: 1 replicas of 2 num_cpus do not fit"):
        await moving_to(node, bench).move_in([replica_of(bench, cpus=2)])
    assert node.released == []


async def test_a_lost_node_has_no_room(bench: Workbench) -> None:
    node = UnreachedNode(bench.folder)
    node.state = NodeState.LOST
    with pytest.raises(LaunchError, match="no node has room"):
        await moving_to(node, bench).find_room(replica_of(bench, "http://127.0.0.1:1"))
    assert bench.lines == []


async def test_the_room_of_a_replica_that_moves_out_is_free(bench: Workbench) -> None:
    node, replica = UnreachedNode(bench.folder), replica_of(bench)
    node.room.take(replica.key, replica.placement)
    replica.node = node
    await moving_to(node, bench).move_out([replica])
    assert node.room.compute_left() == {"num_cpus": 1.0}
