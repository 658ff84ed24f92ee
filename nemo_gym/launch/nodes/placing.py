"""The choice of a node for each replica, by what the replica needs and what the node has left."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nemo_gym.config.keys import HostKeys
from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.config.types import Placement


class ReplicaKey(NamedTuple):
    """A replica of a server."""

    server: str
    number: int


@dataclass(slots=True)
class Room:
    """The resources of a node, and its replicas."""

    name: str
    amounts: Mapping[str, float]
    """Name of a resource → its amount, `num_cpus` and `num_gpus` among them."""
    replicas: dict[ReplicaKey, Placement] = field(default_factory=dict)
    gpus: dict[ReplicaKey, Sequence[int | str]] = field(default_factory=dict)
    """The numbers or names of the GPUs that a replica has."""
    gpu_names: Sequence[str] = ()
    """The names of all GPUs; without names they are numbered."""

    def compute_left(self) -> dict[str, float]:
        """The amounts that no replica needs."""
        left = dict(self.amounts)
        for placement in self.replicas.values():
            for name, amount in placement.needs.items():
                left[name] = left.get(name, 0.0) - amount
        return left

    def fits(self, placement: Placement) -> bool:
        """Return whether another replica has room here."""
        left = self.compute_left()
        return all(left.get(name, 0.0) >= amount for name, amount in placement.needs.items())

    def take(self, key: ReplicaKey, placement: Placement) -> None:
        """Place a replica here, which `fits`."""
        taken = {gpu for gpus in self.gpus.values() for gpu in gpus}
        free = (gpu for gpu in self.gpu_names or itertools.count() if gpu not in taken)
        self.replicas[key] = placement
        self.gpus[key] = list(itertools.islice(free, placement.num_gpus))

    def leave(self, key: ReplicaKey) -> None:
        self.replicas.pop(key, None)
        self.gpus.pop(key, None)


def build_room(host: HostKeys, cpus: float, gpus: Sequence[str]) -> Room:
    """Return the room of a host whose node host may use these CPUs and GPUs. Declared numbers come before them."""
    num_cpus = cpus if host.num_cpus is None else host.num_cpus
    num_gpus = len(gpus) if host.num_gpus is None else host.num_gpus
    amounts = {"num_cpus": num_cpus, "num_gpus": float(num_gpus), **host.resources}
    # More GPUs than the node host has found are numbered: their names are not known.
    return Room(host.host, amounts, gpu_names=gpus if len(gpus) >= num_gpus else ())


def rank_rooms(key: ReplicaKey, placement: Placement, rooms: Sequence[Room]) -> list[Room]:
    """Return the nodes that have room for a replica now, the best one first."""

    def rank(room: Room) -> tuple[int, int]:
        siblings = sum(other.server == key.server for other in room.replicas)
        return (siblings if placement.spread else -siblings, len(room.replicas))

    allowed = [room for room in rooms if placement.node in (None, room.name) and room.fits(placement)]
    return sorted(allowed, key=rank)


def check_declared(wanted: Mapping[ReplicaKey, Placement], hosts: Sequence[HostKeys]) -> None:
    """Raise `ConfigErrors` for needs that the hosts cannot meet, by what they declare.

    The CPUs and GPUs of hosts that do not declare them are checked by `place_all`, when the hosts are connected.
    """
    rooms = []
    for host in hosts:
        cpus = math.inf if host.num_cpus is None else host.num_cpus
        gpus = math.inf if host.num_gpus is None else host.num_gpus
        rooms.append(Room(host.host, {"num_cpus": cpus, "num_gpus": gpus, **host.resources}))
    place_all(wanted, rooms)


def place_all(wanted: Mapping[ReplicaKey, Placement], rooms: Sequence[Room]) -> dict[ReplicaKey, Room]:
    """Place all replicas, those with the largest needs first. Raises `ConfigErrors` with the numbers."""
    placed: dict[ReplicaKey, Room] = {}
    problems: dict[str, Problem] = {}
    for key, placement in sorted(wanted.items(), key=lambda each: -sum(each[1].needs.values())):
        if ranked := rank_rooms(key, placement, rooms):
            ranked[0].take(key, placement)
            placed[key] = ranked[0]
        else:
            problems.setdefault(key.server, _problem(key.server, wanted, rooms))
    if problems:
        raise ConfigErrors(list(problems.values()))
    return placed


def _problem(server: str, wanted: Mapping[ReplicaKey, Placement], rooms: Sequence[Room]) -> Problem:
    placements = [placement for key, placement in wanted.items() if key.server == server]
    placement = placements[0]
    if placement.node not in (None, *(room.name for room in rooms)):
        names = ", ".join(room.name for room in rooms)
        return Problem(
            None, f"{server}: placement.node is {placement.node!r}, which is no host.", f"Hosts: {names}."
        )
    needs = show_amounts(placement.needs)
    have = "; ".join(
        f"{room.name} has {show_amounts({name: room.amounts.get(name, 0.0) for name in placement.needs})}"
        f" and {show_amounts({name: room.compute_left().get(name, 0.0) for name in placement.needs})} left"
        for room in rooms
    )
    return Problem(
        None,
        f"{server}: {len(placements)} replicas of {needs} do not fit: {have}.",
        f"Lower `placement` of {server}, or add hosts.",
    )


def show_amounts(amounts: Mapping[str, float]) -> str:
    """Return amounts as text, without those that are not known."""
    shown = (f"{amount:g} {name}" for name, amount in amounts.items() if amount < math.inf)
    return ", ".join(shown) or "nothing"
