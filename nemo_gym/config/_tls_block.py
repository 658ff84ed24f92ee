"""The check of the block `tls` of a configuration. Only configurations with that block import it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from nemo_gym.config.addresses import find_called_host
from nemo_gym.config.keys import own_address
from nemo_gym.config.problems import Problems
from nemo_gym.config.servers import ServerInstance
from nemo_gym.config.tree import DictTree, nearest_location
from nemo_gym.names import HEAD_SERVER, TLS_KEY
from nemo_gym.tls import FILES, find_tls_faults


def absolute_files(tls: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the files of `tls` with absolute paths; relative ones are below `folder`."""
    return {key: str(folder / Path(tls[key]).expanduser()) for key in FILES if tls.get(key)}


def check_tls(
    servers: Iterable[ServerInstance],
    data: dict[str, Any],
    root: DictTree,
    folder: Path,
    command_keys: BaseModel | None,
    problems: Problems,
) -> None:
    """Make the paths of `tls` absolute, and add a problem for every error in the files of this machine's servers.

    The placement in `command_keys` says where this machine's servers are called. Those on nodes have certificates that
    the node hosts check.
    """
    tls = data[TLS_KEY] = absolute_files(data[TLS_KEY], folder)
    servers = tuple(servers)
    if not servers:
        return
    placement = getattr(command_keys, "placement", None) or "process"
    for fault in find_tls_faults(tls, _hosts(servers, data, placement)):
        problems.add(nearest_location(root, (TLS_KEY, fault.key)), fault.message, fault.remedy)


def _hosts(servers: Iterable[ServerInstance], data: Mapping[str, Any], placement: str) -> list[str]:
    """Return the hosts in the URLs of the servers on this machine, as far as they are known before the start."""
    if placement == "hosts":
        return [data.get("advertised_host") or own_address()]
    if placement == "ray":  # Ray knows this machine's address
        return [data["advertised_host"]] if data.get("advertised_host") else []
    blocks = (data[HEAD_SERVER], *(server.config for server in servers))
    return sorted({find_called_host(block.get("host") or data["default_host"]) for block in blocks})
