"""Listening sockets that the launcher holds for the servers.

Every chosen port is held: the launcher binds and listens, publishes the address, and passes the descriptor to the
child. A connection during the child's start or restart waits in the backlog instead of failing.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nemo_gym.config.current import maybe_get_global_config_dict
from nemo_gym.failures import ConfigError
from nemo_gym.transport import local_sockets
from nemo_gym.transport.directory import base_url

LOOPBACK = "127.0.0.1"
BACKLOG = 4096
"""Connections that may wait for a server; the kernel caps it at `net.core.somaxconn`."""


@dataclass(frozen=True, slots=True)
class HeldSocket:
    """A bound and listening socket with its address."""

    listener: socket.socket
    host: str
    """The configured host, which may be a wildcard address."""
    port: int
    is_tls: bool = False
    local: socket.socket | None = None
    """The socket for calls within the machine; None without one."""

    def listen_locally(self, run: str) -> HeldSocket:
        """Return it with a socket for calls of the run within the machine, where that is supported."""
        return replace(self, local=local_sockets.listen(run, self.url, BACKLOG))

    @property
    def listeners(self) -> list[socket.socket]:
        """All sockets that its server listens on."""
        return [self.listener] if self.local is None else [self.listener, self.local]

    @property
    def url(self) -> str:
        """The URL at which a client on this machine reaches it."""
        return base_url(self.host, self.port, is_tls=self.is_tls)

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()


@dataclass(frozen=True, slots=True)
class PortRange:
    """The ports for servers without a configured one: `low` to `high`, except `disallowed`.

    Without bounds the kernel chooses.
    """

    low: int | None = None
    high: int | None = None
    disallowed: Collection[int] = ()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PortRange:
        return cls(
            config.get("port_range_low"),
            config.get("port_range_high"),
            tuple(config.get("disallowed_ports") or ()),
        )

    def candidates(self) -> Iterator[int]:
        if self.low is None and self.high is None:
            # The kernel may choose a disallowed port. Each is held until the end, so every try gives another.
            return itertools.repeat(0, len(self.disallowed) + 1)
        low = 1024 if self.low is None else self.low
        high = 65535 if self.high is None else self.high
        return (port for port in range(low, high + 1) if port not in self.disallowed)


def hold(host: str, port: int, *, holder_of: str) -> HeldSocket:
    """Bind and listen on `host:port`. Raises `ConfigError` naming the process that holds a taken port.

    `holder_of` is the name of the server, for the message.
    """
    try:
        return _listen(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} of `{holder_of}` is taken by {describe_holder(port)}",
                code="port_taken",
                remedy="Stop that process, or give the server another port (or none, to use a free one).",
                peer=f"{host}:{port}",
            ) from error
        raise _cannot_listen(holder_of, f"{host}:{port}", error) from error


def hold_free(host: str, ports: PortRange, *, holder_of: str) -> HeldSocket:
    """Bind and listen on a free port of `ports`. Raises `ConfigError` if none is free."""
    rejected: list[HeldSocket] = []
    try:
        for candidate in ports.candidates():
            try:
                held = _listen(host, candidate)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    continue
                raise _cannot_listen(holder_of, host, error) from error
            if held.port not in ports.disallowed:
                return held
            rejected.append(held)
    finally:
        for held in rejected:
            held.close()
    raise ConfigError(
        f"no port from {ports.low} to {ports.high} is free for `{holder_of}`",
        code="no_free_port",
        remedy="Widen `port_range_low` and `port_range_high`, or leave them out.",
    )


def _cannot_listen(server: str, address: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"`{server}` cannot listen on {address}: {error.strerror or error}",
        code="cannot_listen",
        remedy="Check `host` and `port` (or `default_host`) of this server.",
        peer=address,
    )


def describe_holder(port: int) -> str:
    """The process that listens on `port`, such as `pid 123 (ng_run)`, if this user can see it."""
    import psutil

    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return "a process that this user cannot see"
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            try:
                return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                return f"pid {connection.pid}"
    return "another user's process, or a connection that is still closing"


def _listen(host: str, port: int) -> HeldSocket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = local_sockets.listen_at(family, (host, port), BACKLOG)
    return HeldSocket(listener, host, int(listener.getsockname()[1]))


def find_open_port(disallowed_ports: list[int] | None = None, max_retries: int = 50) -> int:
    """A port of the configured range that is currently free.

    It is not held, so another process may take it; the gym's servers use held sockets instead. `max_retries` has no
    effect: every port of the range is tried.
    """
    config: Any = maybe_get_global_config_dict() or {}
    ports = PortRange.from_config(config)
    ports = replace(ports, disallowed=(*ports.disallowed, *(disallowed_ports or ())))
    host = config.get("default_host") or LOOPBACK
    with contextlib.closing(hold_free(host, ports, holder_of="find_open_port")) as held:
        return held.port
