"""Addresses of all servers: held sockets, with hosts and ports written into the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import ConfigError
from nemo_gym.launch.sockets import LOOPBACK, HeldSocket, PortRange, hold, hold_free
from nemo_gym.names import HEAD_SERVER, LOCAL_SOCKETS_KEY, REPLICA_PORTS_KEY
from nemo_gym.tls import uses_tls
from nemo_gym.transport.local_sockets import new_run


class HeldAddress(Protocol):
    """An address at which something listens: a `HeldSocket` of this process, or a socket on a node."""

    @property
    def url(self) -> str: ...
    @property
    def port(self) -> int: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class Addresses:
    """The sockets of a gym: one per server process, and the head server's."""

    head: HeldSocket
    servers: Mapping[str, Sequence[HeldAddress]]
    """Server name → the addresses of its replicas."""

    def close(self) -> None:
        self.head.close()
        for sockets in self.servers.values():
            for held in sockets:
                held.close()


def hold_addresses(
    config: dict[str, Any],
    instances: Sequence[ServerInstance],
    announce: Callable[[str], None],
    *,
    head_port_is_fixed: bool,
) -> Addresses:
    """Bind every listening socket and write `host` and `port` into the blocks of `config`.

    An instance with several workers gets a socket per worker; `_ng_replica_ports` lists their ports. Without TLS each
    has one for calls within the machine, too; `_ng_local_sockets` names them.

    If the head server's port is taken and not fixed (`head_port_is_fixed`), a free one is used and announced. Raises
    `ConfigErrors` naming every unavailable port and its holder, and releases all sockets.
    """
    blocks = {each.name: config[each.name][each.kind][each.implementation] for each in instances}
    head = blocks[HEAD_SERVER] = config.setdefault(HEAD_SERVER, {})
    holding = _Holding(
        config.get("default_host") or LOOPBACK, PortRange.from_config(config), uses_tls(config)
    )
    # Fixed ports first: a free port chosen earlier might be a fixed port of another server.
    for name, block in blocks.items():
        if block.get("port"):
            holding.take(name, block, is_fixed=True)
    refusal = None
    if head.get("port") and HEAD_SERVER not in holding.taken and not head_port_is_fixed:
        refusal = holding.failed.pop()  # the head server's is the last
    counts = {HEAD_SERVER: 1, **{each.name: max(1, each.num_workers) for each in instances}}
    for name, count in counts.items():
        for _ in range(count - len(holding.taken.get(name, ()))):
            holding.take(name, blocks[name], is_fixed=False)
    holding.raise_if_any_failed()
    for name, block in blocks.items():
        _publish(block, holding.taken[name])
    if refusal is not None:
        announce(f"{refusal.failure.message}; it listens on port {head['port']} instead")
    servers = holding.taken if holding.is_tls else _open_local_sockets(holding.taken, config)
    (head_socket,) = servers.pop(HEAD_SERVER)
    return Addresses(head_socket, servers)


@dataclass(slots=True)
class _Holding:
    """The sockets taken so far, and the failures."""

    host: str
    ports: PortRange
    is_tls: bool
    taken: dict[str, list[HeldSocket]] = field(default_factory=dict)
    failed: list[ConfigError] = field(default_factory=list)

    def take(self, name: str, block: Mapping[str, Any], *, is_fixed: bool) -> None:
        host = block.get("host") or self.host
        try:
            held = (
                hold(host, int(block["port"]), holder_of=name)
                if is_fixed
                else hold_free(host, self.ports, holder_of=name)
            )
        except ConfigError as error:
            self.failed.append(error)
        else:
            self.taken.setdefault(name, []).append(replace(held, is_tls=self.is_tls))

    def raise_if_any_failed(self) -> None:
        if not self.failed:
            return
        for sockets in self.taken.values():
            for held in sockets:
                held.close()
        raise ConfigErrors(
            [Problem(None, error.failure.message, error.failure.remedy) for error in self.failed]
        ) from self.failed[0]


def _publish(block: dict[str, Any], sockets: Sequence[HeldSocket]) -> None:
    block["host"] = sockets[0].host
    block["port"] = sockets[0].port
    if len(sockets) > 1:
        block[REPLICA_PORTS_KEY] = [held.port for held in sockets]


def _open_local_sockets(
    servers: Mapping[str, Sequence[HeldSocket]], config: dict[str, Any]
) -> dict[str, list[HeldSocket]]:
    run = config[LOCAL_SOCKETS_KEY] = new_run()
    return {name: [held.listen_locally(run) for held in sockets] for name, sockets in servers.items()}
