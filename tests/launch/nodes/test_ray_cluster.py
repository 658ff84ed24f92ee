"""The Ray cluster of a configuration, without Ray. `make test-cluster` has a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.launch.nodes.ray_cluster import check_token, find_hosts, read_address

HEAD = {"name": "head", "id": "aa", "resources": {"CPU": 0.0, "node:10.0.0.1": 1.0}}
WORKER = {
    "name": "10.0.0.2",
    "id": "bb",
    "resources": {"CPU": 8.0, "GPU": 2.0, "licence": 1.0, "memory": 1e9, "node:10.0.0.2": 1.0},
}


@pytest.mark.parametrize(
    ("config", "variables", "address"),
    [
        ({}, {}, "auto"),
        ({}, {"RAY_ADDRESS": "10.0.0.1:6379"}, "10.0.0.1:6379"),
        ({"ray_address": "auto"}, {"RAY_ADDRESS": "10.0.0.1:6379"}, "auto"),
    ],
)
def test_the_address_is_that_of_the_configuration_or_of_the_environment(
    config: dict[str, Any], variables: dict[str, str], address: str
) -> None:
    assert read_address(config, variables) == address


@pytest.mark.parametrize("address", ["local", "ray://10.0.0.1:10001"])
def test_addresses_that_start_a_cluster_or_need_a_proxy_are_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=f"ray_address is {address}"):
        read_address({"ray_address": address}, {})


def test_a_token_in_the_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="RAY_AUTH_TOKEN, which every server would inherit"):
        check_token({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "secret"})


def test_a_token_must_be_in_a_file_of_this_user_alone(tmp_path: Path) -> None:
    token = tmp_path / "token"
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    with pytest.raises(ConfigError, match="there is no token file"):
        check_token(variables)
    token.touch(mode=0o640)
    with pytest.raises(ConfigError, match="other users can read"):
        check_token(variables)
    token.chmod(0o600)
    check_token(variables)


def test_hosts_are_the_nodes_with_cpus_and_have_what_ray_says() -> None:
    [(keys, node)] = find_hosts([HEAD, WORKER], ())
    assert (keys.host, keys.num_cpus, keys.num_gpus) == ("10.0.0.2", 8.0, 2)
    assert keys.resources == {"licence": 1.0, "memory": 1e9}
    assert node == ("10.0.0.2", "bb")


def test_named_nodes_are_used_whatever_they_have() -> None:
    assert [keys.host for keys, _ in find_hosts([HEAD, WORKER], ["head"])] == ["head"]


def test_nodes_of_one_name_are_told_apart_by_their_ids() -> None:
    found = find_hosts([WORKER, {**WORKER, "id": "cc"}], ())
    assert [keys.host for keys, _ in found] == ["10.0.0.2-bb", "10.0.0.2-cc"]


@pytest.mark.parametrize(
    ("nodes", "wanted", "message"),
    [
        ([HEAD, WORKER], ["10.0.0.3"], "Ray has no node 10.0.0.3. Ray's nodes: 10.0.0.2, head."),
        ([HEAD], [], "no node of Ray has CPUs"),
        ([WORKER], [{"host": "10.0.0.2", "num_cpus": 1}], "hosts declares what a node has"),
    ],
)
def test_hosts_that_ray_does_not_have_are_refused(
    nodes: list[dict[str, Any]], wanted: list[Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        find_hosts(nodes, wanted)
