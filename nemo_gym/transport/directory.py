"""Server names and the base URLs of their replicas, read from the global configuration."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from nemo_gym.config.addresses import find_called_host
from nemo_gym.config.keys import DEFAULT_HOST
from nemo_gym.config.problems import did_you_mean
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import member
from nemo_gym.names import (
    AGENT_ALIAS,
    DEFAULT_HEAD_SERVER_PORT,
    HEAD_SERVER,
    REPLICA_PORTS_KEY,
    SERVER_KINDS,
)
from nemo_gym.tls import uses_tls


def base_url(host: str, port: int, *, is_tls: bool = False) -> str:
    """`http://host:port`, or `https://`, with a wildcard host replaced by the loopback address that reaches it."""
    host, scheme = find_called_host(host), "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def head_url(config: Mapping[str, Any]) -> str:
    """Return the base URL of the head server of a configuration."""
    head = config.get(HEAD_SERVER) or {}
    host, port = head.get("host") or DEFAULT_HOST, int(head.get("port") or DEFAULT_HEAD_SERVER_PORT)
    return base_url(str(host), port, is_tls=uses_tls(config))


def server_block(instance: object) -> Mapping[str, Any] | None:
    """Return the innermost block of a server instance (`host`, `port`, options); None for anything else."""
    for kind in SERVER_KINDS:
        implementations = member(instance, kind)
        if isinstance(implementations, Mapping) and len(implementations) == 1:
            block = next(iter(implementations.values()))
            return block if isinstance(block, Mapping) else None
    return None


def list_bound_hosts(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the host of every server of a running gym, the head server included."""
    for instance in config.values():
        host = member(server_block(instance) or instance, "host")
        if isinstance(host, str):
            yield host


def list_aliases(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every second name of an agent, and the agent."""
    for name, instance in config.items():
        agent = member(instance, "environment_servers", AGENT_ALIAS, "agent_server", "name")
        if isinstance(agent, str):
            yield name, agent


class Directory:
    """Maps server names to the base URLs of their replicas."""

    def __init__(self, replicas: Mapping[str, Iterable[str]]) -> None:
        self._replicas = {name: tuple(urls) for name, urls in replicas.items()}
        self._round_robin = {name: itertools.count() for name in self._replicas}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Directory:
        replicas: dict[str, list[str]] = {}
        for name, instance in config.items():
            block = server_block(instance)
            if block is None or block.get("port") is None:
                continue
            ports = block.get(REPLICA_PORTS_KEY) or [block["port"]]
            host, is_tls = block.get("host") or DEFAULT_HOST, uses_tls(config)
            replicas[name] = [base_url(host, port, is_tls=is_tls) for port in ports]
        for name, agent in list_aliases(config):
            if agent in replicas:
                replicas[name] = replicas[agent]
        return cls(replicas)

    def names(self) -> tuple[str, ...]:
        return tuple(self._replicas)

    def replicas(self, server: str) -> tuple[str, ...]:
        """Return the base URLs of `server`. Raises `ConfigError` that suggests the closest name."""
        urls = self._replicas.get(server)
        if urls:
            return urls
        known = f"Known servers: {', '.join(self._replicas) or 'none'}."
        hint = did_you_mean(server, self._replicas) or known
        raise ConfigError(f"no server is named `{server}`", code="unknown_server", remedy=hint, peer=server)

    def choose(self, server: str, session: str | None, is_out: Callable[[str], bool] | None = None) -> str:
        """Return the replica for `session` by rendezvous hashing; without a session, the next one round robin.

        `is_out` returns whether a replica is unreachable. Calls without a session skip such replicas while another is
        left. A session always stays with its replica, which holds the session's state. The replica's number is hashed
        and not its URL, so that a replica that has moved keeps its share of the sessions.
        """
        urls = self._replicas.get(server) or self.replicas(server)
        if len(urls) == 1:
            return urls[0]
        if session is None:
            return self._next(server, urls, is_out)
        return urls[choose_home(session, len(urls))]

    def _next(self, server: str, urls: Sequence[str], is_out: Callable[[str], bool] | None) -> str:
        if is_out is not None:
            urls = [url for url in urls if not is_out(url)] or urls
        return urls[next(self._round_robin[server]) % len(urls)]


def choose_home(session: str, replicas: int) -> int:
    """Return the number of the replica for a session, among `replicas` of them, by rendezvous hashing.

    Of the sessions of n replicas, an added one gets the share 1/(n + 1), and all others keep their replica.
    """
    return max(range(replicas), key=lambda number: rendezvous(number, session))


def rendezvous(replica: object, session: str) -> bytes:
    """Return the hash by which the replicas for a session are ranked."""
    return hashlib.blake2b(f"{replica} {session}".encode(), digest_size=8).digest()
