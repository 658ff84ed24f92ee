"""Checks of addresses: loopback only unless there is a token, no fixed port twice, URLs of engines with a scheme."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from nemo_gym.config.problems import Problems
from nemo_gym.config.secrets import hide_in_text
from nemo_gym.config.servers import ServerInstance
from nemo_gym.config.tree import DictTree, Path, nearest_location, render_path
from nemo_gym.names import HEAD_SERVER, OPEN_NETWORK, RUN_TOKEN

IN_MEMORY_HOST = "inline"
"""The host of servers that are reachable from their own process only, without a socket."""


_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class FixedAddress(NamedTuple):
    """A host and a port that the configuration fixes for a server."""

    server: str
    host: str
    port: int
    path: Path
    """The key that sets the port."""


def is_loopback(host: str) -> bool:
    """Return whether `host` is reachable from this machine only."""
    if host in ("localhost", IN_MEMORY_HOST):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def find_called_host(host: str) -> str:
    """Return the host in the URL of a server that listens at `host`: loopback for every address of this machine."""
    return _WILDCARDS.get(host, host)


def check_addresses(
    servers: Iterable[ServerInstance], data: Mapping[str, Any], root: DictTree, problems: Problems
) -> None:
    """Add a problem for every duplicate port, and for every reachable address of a gym that is neither open nor has a
    `run_token`."""
    servers = tuple(servers)
    _check_ports(servers, data, root, problems)
    _check_urls(servers, data, root, problems)
    if data.get(RUN_TOKEN) or data.get(OPEN_NETWORK):
        return
    for path, host in _hosts(servers, data, root):
        if not is_loopback(host):
            problems.add(
                nearest_location(root, path),
                f"{render_path(path)}: a server at {host} can be reached from other machines, but there is no token.",
                "Set run_token to a long random text, which every call then needs; or listen on 127.0.0.1; or accept "
                f"calls of every machine with {OPEN_NETWORK}: true on the command line or in env.yaml.",
            )


_ROUTE = re.compile(r"/(chat/completions|completions|responses|messages)/?$")
"""The end of a URL that is an engine's route below its base URL."""


def list_fixed_addresses(
    servers: Iterable[ServerInstance], data: Mapping[str, Any]
) -> Iterator[FixedAddress]:
    """Yield the addresses whose port is set in the configuration."""
    head = data[HEAD_SERVER]
    if head["port"]:
        yield FixedAddress(HEAD_SERVER, head["host"], head["port"], (HEAD_SERVER, "port"))
    for server in servers:
        port = server.config.get("port")
        if isinstance(port, int) and port > 0:
            yield FixedAddress(
                server.name, server.config.get("host") or data["default_host"], port, (*server.path, "port")
            )


def _hosts(
    servers: Iterable[ServerInstance], data: Mapping[str, Any], root: DictTree
) -> Iterator[tuple[Path, str]]:
    """Yield the hosts at which servers listen, each with the key that sets it."""
    is_own = "default_host" in root.entries or not data.get("use_absolute_ip")
    yield ("default_host" if is_own else "use_absolute_ip",), data["default_host"]
    if data[HEAD_SERVER]["host"] != data["default_host"]:
        yield (HEAD_SERVER, "host"), data[HEAD_SERVER]["host"]
    for server in servers:
        if isinstance(server.config.get("host"), str):
            yield (*server.path, "host"), server.config["host"]


def _check_urls(
    servers: Iterable[ServerInstance], data: Mapping[str, Any], root: DictTree, problems: Problems
) -> None:
    """Add a problem for every URL of an engine that has no scheme or ends in a route, where the user has set it."""
    named: list[tuple[Path, Any]] = [(("policy_base_url",), data.get("policy_base_url"))]
    for server in servers:
        keys = [key for key in server.config if str(key).endswith("base_url")]
        named += [((*server.path, key), server.config[key]) for key in keys]
    faulty: dict[str, Path] = {}
    for path, value in named:
        for url in value if isinstance(value, list) else [value]:
            if isinstance(url, str) and url and ("://" not in url or _ROUTE.search(url)):
                faulty.setdefault(url, path)
    for url, path in faulty.items():
        where, place, url = nearest_location(root, path), render_path(path), hide_in_text(url)
        if "://" not in url:
            problems.add(where, f"{place}: {url!r} is not a URL.", f"Did you mean 'http://{url}'?")
        else:
            base = _ROUTE.sub("", url)
            problems.add(where, f"{place}: {url!r} is a route, not a base URL.", f"Did you mean {base!r}?")


def _check_ports(
    servers: tuple[ServerInstance, ...], data: Mapping[str, Any], root: DictTree, problems: Problems
) -> None:
    low, high = data.get("port_range_low"), data.get("port_range_high")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        problems.add(
            nearest_location(root, ("port_range_low",)),
            f"port_range_low ({low}) is above port_range_high ({high}).",
            "Swap them.",
        )
    taken: dict[int, FixedAddress] = {}
    for address in list_fixed_addresses(servers, data):
        first = taken.setdefault(address.port, address)
        if first is not address:
            problems.add(
                nearest_location(root, address.path),
                f"{address.server} and {first.server} have the same port, {address.port}.",
                "Give one of them another port, or omit the port to get a free one.",
            )
