"""Machines in miniature: network namespaces with an address each, joined by a switch in a namespace of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Machines:
    """A network of namespaces. Machine number n has the address 10.77.0.n."""

    prefix: str
    names: tuple[str, ...]
    """The namespaces of the machines; the first one is for the launcher."""

    @property
    def host_command(self) -> str:
        return "ip netns exec {host}"

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.names[1:]

    @property
    def switch(self) -> str:
        """The namespace that all traffic between machines passes through."""
        return f"{self.prefix}-s"

    def address(self, name: str) -> str:
        return f"10.77.0.{self.names.index(name) + 1}"

    def command(self, name: str, *words: str) -> list[str]:
        """The command line that runs `words` on a machine."""
        return ["ip", "netns", "exec", name, *words]

    def cut(self, name: str) -> None:
        """Disconnect a machine from the network; its processes go on."""
        _ip("-n", name, "link", "set", "eth", "down")

    def join(self, name: str) -> None:
        """Connect it again."""
        _ip("-n", name, "link", "set", "eth", "up")

    def keys(self) -> list[str]:
        """The overrides that place the servers of a configuration on these machines."""
        return [
            "+placement=hosts",
            f"+hosts=[{','.join(self.hosts)}]",
            f'+host_command="{self.host_command}"',
            f"+advertised_host={self.address(self.names[0])}",
        ]


@cache
def why_not() -> str | None:
    """The reason why no namespaces can be made here; None if they can."""
    if shutil.which("ip") is None:
        return "there is no `ip` (iproute2)"
    name = f"ng{uuid.uuid4().hex[:6]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    bridged = subprocess.run(
        ["ip", "-n", name, "link", "add", "name", "switch", "type", "bridge"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    _ip("netns", "del", name)
    return f"there is no bridge: {bridged.stderr.strip()}" if bridged.returncode else None


@contextlib.contextmanager
def machines(count: int) -> Iterator[Machines]:
    """A machine for the launcher and `count` hosts, until the end of the block."""
    prefix = f"ng{os.getpid() % 100_000}{uuid.uuid4().hex[:3]}"
    made = Machines(prefix, tuple(f"{prefix}-{n}" for n in range(count + 1)))
    switch = made.switch
    namespaces: list[str] = []
    try:
        for name in (switch, *made.names):
            _ip("netns", "add", name)
            namespaces.append(name)
        _ip("-n", switch, "link", "add", "name", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for number, name in enumerate(made.names):
            _plug_in(name, switch, f"port{number}", made.address(name))
        yield made
    finally:
        for name in namespaces:
            _ip("netns", "del", name)


def _plug_in(name: str, switch: str, port: str, address: str) -> None:
    _ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth", "netns", name)
    _ip("-n", switch, "link", "set", port, "master", "switch", "up")
    _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth")
    _ip("-n", name, "link", "set", "eth", "up")
    _ip("-n", name, "link", "set", "lo", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


def running_in(name: str) -> Sequence[int]:
    """The processes of a machine."""
    done = subprocess.run(
        ["ip", "netns", "pids", name], check=True, capture_output=True, text=True, timeout=30
    )
    return [int(pid) for pid in done.stdout.split()]
