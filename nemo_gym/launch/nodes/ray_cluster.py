"""The Ray cluster of a configuration: its address, the safety of its token, its nodes as hosts. Nothing calls Ray."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.config.keys import HostKeys
from nemo_gym.failures import ConfigError
from nemo_gym.launch.nodes.ray_driver import AUTO

_ID_LETTERS = 8
"""The letters of a node's id that tell nodes of one name apart."""


class RayNode(NamedTuple):
    """A node of a cluster, by Ray's name and id."""

    name: str
    id: str


def read_address(config: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """Return the address of the cluster. Raises `ConfigError` for one that no driver can connect to."""
    address = str(config.get("ray_address") or variables.get("RAY_ADDRESS") or AUTO)
    if address == "local" or "://" in address:
        raise ConfigError(
            f"ray_address is {address}, which is no address of a running cluster's head",
            code="ray_address",
            remedy="Use host:port, or auto for the cluster of this machine.",
        )
    return address


def check_token(variables: Mapping[str, str]) -> None:
    """Raise `ConfigError` for a token of Ray that other users or every child process can read."""
    if variables.get("RAY_AUTH_TOKEN"):
        raise ConfigError(
            "Ray's token is in the environment variable RAY_AUTH_TOKEN, which every server would inherit",
            code="ray_token_in_environment",
            remedy="Write it to a file with mode 600, set RAY_AUTH_TOKEN_PATH to the file, and unset the variable.",
        )
    if variables.get("RAY_AUTH_MODE", "").lower() != "token":
        return
    path = Path(variables.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    if not path.is_file():
        raise ConfigError(
            f"RAY_AUTH_MODE is token, but there is no token file {path}",
            code="no_ray_token",
            remedy="Set RAY_AUTH_TOKEN_PATH to the file that has the cluster's token.",
        )
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"other users can read Ray's token in {path}", code="ray_token_mode", remedy=f"chmod 600 {path}"
        )


def find_hosts(
    nodes: Sequence[Mapping[str, Any]], wanted: Sequence[str | Mapping[str, Any]]
) -> list[tuple[HostKeys, RayNode]]:
    """Return the hosts with what Ray says that they have.

    `wanted`: names of nodes; by default all nodes with CPUs, because a node without CPUs is one that Ray's users keep
    free of work. Raises `ConfigError` for a name that no node has.
    """
    if declared := [each for each in wanted if not isinstance(each, str)]:
        raise ConfigError(
            f"hosts declares what a node has: {dict(declared[0])}",
            code="hosts_of_ray",
            remedy="With placement=ray, hosts may only name nodes; Ray knows what they have.",
        )
    counts = Counter(node["name"] for node in nodes)
    found: dict[str, tuple[HostKeys, RayNode]] = {}
    for node in nodes:
        given, ray_node = node["resources"], RayNode(node["name"], node["id"])
        host = ray_node.name if counts[ray_node.name] == 1 else f"{ray_node.name}-{ray_node.id[:_ID_LETTERS]}"
        resources = {
            name: amount
            for name, amount in given.items()
            if name not in ("CPU", "GPU", "object_store_memory") and not name.startswith("node:")
        }
        keys = HostKeys(
            host=host, num_cpus=given.get("CPU", 0), num_gpus=int(given.get("GPU", 0)), resources=resources
        )
        if host in wanted or (not wanted and keys.num_cpus):
            found[host] = keys, ray_node
    missing = [name for name in wanted if name not in found]
    if missing or not found:
        raise ConfigError(
            f"Ray has no node {', '.join(map(str, missing))}" if missing else "no node of Ray has CPUs",
            code="no_ray_node",
            remedy=f"Ray's nodes: {', '.join(sorted(counts))}.",
        )
    return [found[host] for host in sorted(found)]
