"""Which node a replica gets, and the message if none can have it."""

from __future__ import annotations

import pytest

from nemo_gym.config.keys import HostKeys
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config.types import Placement
from nemo_gym.launch.nodes.placing import ReplicaKey, Room, build_room, check_declared, place_all, rank_rooms


def rooms(**cpus: float) -> list[Room]:
    return [Room(name, {"num_cpus": amount, "num_gpus": 2.0}) for name, amount in cpus.items()]


def wanted(**placements: Placement) -> dict[ReplicaKey, Placement]:
    return {
        ReplicaKey(name, number): placement
        for name, placement in placements.items()
        for number in range(placement.replicas or 1)
    }


def test_replicas_are_spread_over_the_nodes() -> None:
    placed = place_all(wanted(env=Placement(replicas=4), agent=Placement(replicas=2)), rooms(a=4, b=4))
    assert [placed[ReplicaKey("env", number)].name for number in range(4)] == ["a", "b", "a", "b"]
    assert {placed[ReplicaKey("agent", number)].name for number in range(2)} == {"a", "b"}


def test_replicas_that_are_not_spread_fill_one_node_before_the_next() -> None:
    placed = place_all(wanted(env=Placement(replicas=3, num_cpus=2, spread=False)), rooms(a=4, b=4))
    assert [placed[ReplicaKey("env", number)].name for number in range(3)] == ["a", "a", "b"]


def test_large_needs_are_met_first() -> None:
    placed = place_all(wanted(small=Placement(num_cpus=1), large=Placement(num_cpus=4)), rooms(a=4, b=1))
    assert {key.server: room.name for key, room in placed.items()} == {"large": "a", "small": "b"}


def test_a_named_node_is_the_only_one() -> None:
    placed = place_all(wanted(env=Placement(replicas=2, node="b")), rooms(a=4, b=4))
    assert {room.name for room in placed.values()} == {"b"}


def test_replicas_on_a_node_have_gpus_of_their_own() -> None:
    [room] = rooms(a=4)
    placed = place_all(wanted(engine=Placement(replicas=2, num_gpus=1)), [room])
    assert [placed[ReplicaKey("engine", number)].gpus[ReplicaKey("engine", number)] for number in (0, 1)] == [
        [0],
        [1],
    ]
    room.leave(ReplicaKey("engine", 0))
    room.take(ReplicaKey("engine", 2), Placement(num_gpus=1))
    assert room.gpus[ReplicaKey("engine", 2)] == [0]


def test_replicas_have_the_gpus_that_their_node_may_use() -> None:
    room = build_room(HostKeys(host="a"), 1.5, ["4", "6", "GPU-8a"])
    assert room.amounts == {"num_cpus": 1.5, "num_gpus": 3.0}
    place_all(wanted(engine=Placement(num_gpus=2), judge=Placement(num_gpus=1)), [room])
    assert room.gpus == {ReplicaKey("engine", 0): ["4", "6"], ReplicaKey("judge", 0): ["GPU-8a"]}


@pytest.mark.parametrize(("declared", "given"), [(1, ["4"]), (2, ["4", "6"]), (3, [0, 1, 2])])
def test_the_declared_numbers_of_a_host_come_before_those_that_it_finds(
    declared: int, given: list[int | str]
) -> None:
    host = HostKeys(host="a", num_cpus=8, num_gpus=declared, resources={"licence": 1})
    room = build_room(host, 2.0, ["4", "6"])
    assert room.amounts == {"num_cpus": 8.0, "num_gpus": declared, "licence": 1}
    room.take(ReplicaKey("engine", 0), Placement(num_gpus=declared))
    assert room.gpus[ReplicaKey("engine", 0)] == given


def test_a_node_without_room_is_not_chosen_until_a_replica_leaves() -> None:
    [room] = rooms(a=2)
    one, placement = ReplicaKey("env", 0), Placement(num_cpus=2)
    room.take(one, placement)
    assert rank_rooms(ReplicaKey("env", 1), placement, [room]) == []
    room.leave(one)
    assert rank_rooms(ReplicaKey("env", 1), placement, [room]) == [room]


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (
            Placement(replicas=3, num_cpus=2),
            "env: 3 replicas of 2 num_cpus do not fit: a has 4 num_cpus and 0 num_cpus left; b has 1 num_cpus and 1 "
            "num_cpus left.",
        ),
        (Placement(num_gpus=3), "1 replicas of 3 num_gpus do not fit: a has 2 num_gpus"),
        (Placement(resources={"licence": 1}), "a has 0 licence and 0 licence left"),
        (Placement(node="c"), "env: placement.node is 'c', which is no host. Hosts: a, b."),
    ],
)
def test_needs_that_cannot_be_met_are_reported_with_the_numbers(placement: Placement, message: str) -> None:
    with pytest.raises(ConfigErrors) as raised:
        place_all(wanted(env=placement, other=Placement()), rooms(a=4, b=1))
    assert message in str(raised.value)


def test_declared_amounts_are_checked_before_the_hosts_are_connected() -> None:
    hosts = [HostKeys(host="a", num_cpus=4), HostKeys(host="b", num_cpus=2, resources={"licence": 1})]
    check_declared(wanted(env=Placement(replicas=2, num_cpus=2, num_gpus=8)), hosts)
    with pytest.raises(ConfigErrors, match="env: 4 replicas of 2 num_cpus do not fit: a has 4 num_cpus"):
        check_declared(wanted(env=Placement(replicas=4, num_cpus=2)), hosts)
    with pytest.raises(ConfigErrors, match="a has 0 licence and 0 licence left; b has 1 licence and 0 lic"):
        check_declared(wanted(env=Placement(replicas=2, num_gpus=8, resources={"licence": 1})), hosts)
