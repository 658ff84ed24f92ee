"""The directory of replicas that are published, drained, retired and fenced."""

from __future__ import annotations

import json
from typing import Any

from nemo_gym.launch.nodes.hosts import CommandHosts
from nemo_gym.launch.nodes.node import Node
from nemo_gym.launch.nodes.replicas import Replicas
from nemo_gym.names import DIRECTORY_KEY
from tests.launch.small_servers import Workbench, config_of


def replicas_on(node: Node | None, bench: Workbench, changes: list[int]) -> Replicas:
    """Two replicas of `env` and one of `agent`, at ports 1 to 3. `changes` gets the versions of the directory."""
    instances = [bench.instance("env", num_workers=2), bench.instance("agent")]
    config: dict[str, Any] = {**config_of(*instances, head_server={"host": "127.0.0.1", "port": 9}).data}
    replicas = Replicas(config, instances, lambda: changes.append(replicas.directory["version"]))
    for port, replica in enumerate(replicas.all, start=1):
        replica.node, replica.url = node, f"http://10.0.0.1:{port}"
    return replicas


def opened(bench: Workbench, node: Node | None = None) -> Replicas:
    replicas = replicas_on(node, bench, [])
    replicas.open_directory(bench.folder / "directory.json")
    return replicas


def node_named(name: str, bench: Workbench) -> Node:
    hosts = CommandHosts({"hosts": [name]})
    return Node(hosts.keys[0], hosts, bench.folder / "node.log", lambda node: None)


def test_the_directory_is_in_the_configuration_and_in_a_file(bench: Workbench) -> None:
    changes: list[int] = []
    replicas = replicas_on(None, bench, changes)
    replicas.open_directory(bench.folder / "directory.json")
    published = replicas.config[DIRECTORY_KEY]
    assert published["servers"]["env"] == [["http://10.0.0.1:1", 1], ["http://10.0.0.1:2", 1]]
    assert published["head"] == "http://127.0.0.1:9"
    assert json.loads((bench.folder / "directory.json").read_text()) == published
    assert changes == [1]
    replicas.publish_control("127.0.0.1:8")
    assert (published["control"], published["version"], changes) == ("127.0.0.1:8", 2, [1, 2])


def test_a_process_knows_its_own_address_and_those_of_other_servers(bench: Workbench) -> None:
    replicas = opened(bench)
    second = replicas.addresses["env"][1]
    known = {name: address for name, _, _, address in replicas.addresses_for(second)}
    assert known == {"agent": {"host": "10.0.0.1", "port": 3}, "env": {"host": "10.0.0.1", "port": 2}}


def test_replicas_of_a_lost_node_are_other_generations_without_a_place(bench: Workbench) -> None:
    node = node_named("first", bench)
    replicas = opened(bench, node)
    replicas.fence(replicas.list_replicas_on(node))
    assert replicas.directory["servers"]["env"] == [["http://10.0.0.1:1", 2], ["http://10.0.0.1:2", 2]]
    assert replicas.list_replicas_on(node) == ()
    version = replicas.directory["version"]
    replicas.fence(replicas.list_replicas_on(node))
    assert replicas.directory["version"] == version


def test_a_node_that_is_lost_during_the_start_is_fenced_before_the_directory_exists(bench: Workbench) -> None:
    node, changes = node_named("first", bench), list[int]()
    replicas = replicas_on(node, bench, changes)
    replicas.fence(replicas.list_replicas_on(node))
    assert changes == []
    replicas.open_directory(bench.folder / "directory.json")
    assert replicas.directory["servers"]["agent"] == [["http://10.0.0.1:3", 2]]


def test_an_added_replica_is_in_the_directory_once_it_is_published(bench: Workbench) -> None:
    replicas = opened(bench)
    (added,) = replicas.add("env", 1)
    added.url = "http://10.0.0.2:4"
    assert added.key == ("env", 2)
    replicas.update_directory()
    assert len(replicas.directory["servers"]["env"]) == 2
    replicas.publish([added])
    assert replicas.directory["servers"]["env"][2] == ["http://10.0.0.2:4", 1]


def test_the_number_of_a_removed_replica_is_used_again_by_another_generation(bench: Workbench) -> None:
    replicas = opened(bench)
    replicas.drain("env", 1)
    assert replicas.directory["taking"] == {"env": 1}
    replicas.retire(replicas.addresses["env"][1:])
    assert replicas.directory["taking"] == {}
    assert replicas.directory["servers"]["env"] == [["http://10.0.0.1:1", 1]]
    (again,) = replicas.add("env", 1)
    assert (again.key.number, again.generation) == (1, 2)


def test_a_replica_that_was_never_published_leaves_its_generation_free(bench: Workbench) -> None:
    replicas = opened(bench)
    replicas.retire(replicas.add("env", 1))
    (again,) = replicas.add("env", 1)
    assert again.generation == 1
