"""The replicas of a gym on several machines, and the directory that says where they are.

The directory is published with a higher version whenever it changes. A replica of a lost node gets another generation,
so that calls to the old one fail, before it gets a new address.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nemo_gym.config.servers import ServerInstance
from nemo_gym.config.types import Placement
from nemo_gym.launch.nodes.node import Node
from nemo_gym.launch.nodes.placing import ReplicaKey
from nemo_gym.launch.records import write_private
from nemo_gym.names import DIRECTORY_KEY
from nemo_gym.transport.directory import head_url, list_aliases


@dataclass(slots=True)
class Replica:
    """A replica of a server, and its place."""

    key: ReplicaKey
    instance: ServerInstance
    placement: Placement
    node: Node | None = None
    """None while it has no place."""
    socket: int = 0
    url: str = ""
    generation: int = 1
    """Increases with every loss of its node."""
    is_published: bool = True
    """False until an added replica has answered."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def address(self) -> dict[str, Any]:
        """Its host and port, as its block of the configuration has them."""
        return {"host": urlsplit(self.url).hostname, "port": self.port}

    def close(self) -> None:
        """Its socket belongs to its node, which closes it."""


class Replicas:
    """All replicas of a gym, and their directory."""

    def __init__(
        self, config: dict[str, Any], instances: Sequence[ServerInstance], on_change: Callable[[], object]
    ) -> None:
        """List the replicas that the placements of `instances` ask for.

        `config`: gets the addresses and the directory. `on_change` is called when the directory has changed.
        """
        self.config = config
        self.addresses: dict[str, list[Replica]] = {}
        """The published replicas of each server, in the order of their numbers."""
        self.directory: dict[str, Any] = {}
        """The value of `_ng_directory`, kept current."""
        self._on_change = on_change
        self._taking: dict[str, int] = {}
        """Server → the number of its first replicas that take new sessions, while the others leave."""
        self._removed: dict[ReplicaKey, int] = {}
        """Removed replica → its last generation, which no other replica of its number may have."""
        self._replicas: dict[ReplicaKey, Replica] = {}
        for each in instances:
            placement = Placement.model_validate(each.config.get("placement") or {})
            for number in range(placement.replicas or max(1, each.num_workers)):
                key = ReplicaKey(each.name, number)
                self._replicas[key] = Replica(key, each, placement)

    def __getitem__(self, key: ReplicaKey) -> Replica:
        return self._replicas[key]

    @property
    def all(self) -> Sequence[Replica]:
        """All replicas, those that are not published yet among them."""
        return tuple(self._replicas.values())

    def open_directory(self, file: Path) -> None:
        """Publish the directory for the first time, when all replicas have addresses."""
        for replica in self._firsts():
            each = replica.instance
            self.config[each.name][each.kind][each.implementation].update(replica.address)
        self.directory |= {"file": str(file), "version": 0, "head": head_url(self.config)}
        self.update_directory()
        self.config[DIRECTORY_KEY] = self.directory

    def publish_control(self, address: str) -> None:
        """Let the head server know the launcher's control port."""
        self.directory["control"] = address
        self.update_directory()

    def addresses_for(self, replica: Replica) -> list[tuple[str, str, str, dict[str, Any]]]:
        """Return the addresses that the process of a replica knows from its start: its own, and those of the others.

        Each is a server's name, kind, implementation and address.
        """
        others = (first for first in self._firsts() if first.key.server != replica.key.server)
        return [(*each.instance.path, each.address) for each in (*others, replica)]

    def add(self, server: str, count: int) -> list[Replica]:
        """Add replicas, which have no place and are not published yet."""
        known = self.addresses[server]
        instance, placement = known[0].instance, known[0].placement
        added = []
        for number in range(len(known), len(known) + count):
            key = ReplicaKey(server, number)
            generation = self._removed.get(key, 0) + 1
            added.append(Replica(key, instance, placement, generation=generation, is_published=False))
        self._replicas |= {replica.key: replica for replica in added}
        return added

    def publish(self, added: Sequence[Replica]) -> None:
        """Let added replicas take new sessions."""
        for replica in added:
            replica.is_published = True
        self.update_directory()

    def drain(self, server: str, staying: int) -> None:
        """Let only the first replicas take new sessions."""
        self._taking[server] = staying
        self.update_directory()

    def retire(self, replicas: Sequence[Replica]) -> None:
        """Take replicas out of the directory. Their processes must end now."""
        for replica in replicas:
            del self._replicas[replica.key]
            if replica.is_published:
                self._removed[replica.key] = replica.generation
            self._taking.pop(replica.key.server, None)
        self.update_directory()

    def list_replicas_on(self, node: Node) -> Sequence[Replica]:
        """Return the replicas whose place is on a node."""
        return tuple(replica for replica in self._replicas.values() if replica.node is node)

    def fence(self, lost: Sequence[Replica]) -> None:
        """Take the places of replicas of a lost node: calls to their generation fail from now on."""
        for replica in lost:
            replica.node = None
            replica.generation += 1
        if lost:
            self.update_directory()

    def update_directory(self) -> None:
        """Publish the directory with the next version."""
        if not self.directory:  # not all replicas have addresses yet
            return
        self.addresses.clear()
        for key, replica in self._replicas.items():
            if replica.is_published:
                self.addresses.setdefault(key.server, []).append(replica)
        servers = {
            name: [[replica.url, replica.generation] for replica in replicas]
            for name, replicas in self.addresses.items()
        }
        taking = {**self._taking}
        for alias, agent in list_aliases(self.config):
            if agent in servers:
                servers[alias] = servers[agent]
            if agent in taking:
                taking[alias] = taking[agent]
        version = self.directory["version"] + 1
        self.directory |= {"version": version, "servers": servers, "taking": taking}
        write_private(Path(self.directory["file"]), json.dumps(self.directory))
        self._on_change()

    def _firsts(self) -> Iterable[Replica]:
        return (replica for key, replica in self._replicas.items() if key.number == 0)
