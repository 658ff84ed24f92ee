"""The events of a gym's machines are the differences between its records. `test_hosts_spawner.py` has real machines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.launch.nodes.history import NodeHistory
from nemo_gym.launch.observation import Figures
from nemo_gym.launch.records import GymRecord, NodeRecord, ServerRecord
from nemo_gym.names import NODES_FILE
from tests.launch.observed import RUN
from tests.waiting import until

UP = ["the node a is up", "the node b is up"]
PLACES = "aab"
"""The node of each replica."""


class Gym:
    """The record of a gym with two machines, which a test changes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NODES_FILE
        self.lines: list[str] = []
        self.in_flight: dict[str, int | None] = {}
        self.nodes = {
            name: NodeRecord(name, "up", 0.5, 0, "10.0.0.1", str(folder / f"node_{name}.log"))
            for name in ("a", "b")
        }
        self.replicas = [
            ServerRecord("env", "kind", "env", number, f"url {number}", "ready", 1, 0, f"/x/env.{number}.log", node, 1)
            for number, node in enumerate(PLACES)
        ]  # fmt: skip
        self.history = NodeHistory(self.path, self.record, self.lines.append, self.figures, look_every_s=0.0)

    def record(self) -> GymRecord:
        head = replace(self.replicas[0], name="head_server", node="", generation=0)
        return GymRecord(
            replace(RUN, ca="ca.pem"), "/somewhere", (head, *self.replicas), nodes=tuple(self.nodes.values())
        )

    async def figures(self, url: str, token: str, *, ca: str | None, timeout_s: float) -> Figures | None:
        assert (token, ca, timeout_s > 0) == (RUN.token, "ca.pem", True)
        count = self.in_flight.get(url)
        return None if count is None else Figures(count, 0, count)

    def change_node(self, name: str, **fields: Any) -> None:
        self.nodes[name] = replace(self.nodes[name], **fields)
        self.history.note(self.record())

    def change_replicas(self, numbers: Sequence[int], **fields: Any) -> None:
        for number in numbers:
            self.replicas[number] = replace(self.replicas[number], **fields)
            self.history.note(self.record())

    def on_disk(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def log_of(self, node: str) -> str:
        return Path(self.nodes[node].log).read_text()

    async def at_the_end(self) -> dict[str, Any]:
        await self.history.close()
        return self.on_disk()

    async def texts(self) -> list[str]:
        return [each["text"] for each in (await self.at_the_end())["events"]]


@pytest.fixture
async def gym(tmp_path: Path) -> Gym:
    gym = Gym(tmp_path)
    gym.history.note(gym.record())
    return gym


async def test_a_loss_names_the_replicas_that_were_there_and_where_they_went(gym: Gym) -> None:
    gym.change_node("a", state="lost", losses=1)
    gym.change_replicas([0, 1], state="crashed")
    gym.change_replicas([0, 1], state="starting", node="b", generation=2, restarts=1)
    gym.change_node("a", state="up")
    found = await gym.at_the_end()
    assert [(each["kind"], each["text"]) for each in found["events"][2:]] == [
        ("lost", "the node a was lost, with env #0, env #1"),
        ("moved", "env #0 moved to b, from a; its generation is 2"),
        ("moved", "env #1 moved to b, from a; its generation is 2"),
        ("back", "the node a is up again"),
    ]
    assert found["events"][2]["replicas"] == [["env", 0], ["env", 1]]
    assert [each["node"] for each in found["events"][2:]] == ["a", "b", "b", "a"]
    first, second = found["nodes"]
    assert (first["replicas"], first["losses"], first["generation"]) == ({}, 1, 0)
    assert (second["replicas"], second["restarts"], second["generation"]) == ({"env": 3}, 2, 2)
    assert (second["address"], second["log"]) == ("10.0.0.1", "node_b.log")
    log = gym.log_of("a")
    assert "Z INFO launcher: the node a was lost, with env #0, env #1\n" in log
    assert "moved" not in log


async def test_a_loss_that_no_record_showed_is_counted_by_its_number(gym: Gym) -> None:
    gym.change_node("b", losses=1)
    gym.change_replicas([2], generation=2)
    assert (await gym.texts())[2:] == [
        "the node b was lost, with env #2",
        "the node b is up again",
        "env #2 is on b again, from b; its generation is 2",
    ]


async def test_a_replica_that_died_was_restarted_once_it_is_back(gym: Gym) -> None:
    gym.change_replicas([1], state="crashed")
    gym.change_replicas([1], restarts=1)
    await asyncio.sleep(0.3)
    assert gym.on_disk()["replicas"][1]["state"] == "crashed"
    gym.change_replicas([1], state="starting")
    gym.change_replicas([1], state="ready")
    assert await gym.texts() == [*UP, "env #1 was restarted on a"]


async def test_a_server_that_is_scaled_is_one_event_with_the_replicas_that_left(gym: Gym) -> None:
    del gym.replicas[1:]
    gym.history.note_scaled("env", 3, 1, 2)
    gym.history.note_scaled("env", 1, 1, 0)
    found = await gym.at_the_end()
    assert found["events"][-1] | {"at": 0} == {
        "at": 0,
        "kind": "scaled",
        "text": "env has 1 replicas instead of 3; 2 sessions did not end in time",
        "node": None,
        "replicas": [["env", 1], ["env", 2]],
    }
    assert [(each["server"], each["replica"]) for each in found["replicas"]] == [("env", 0)]


async def test_requests_in_flight_are_looked_at_while_the_gym_runs(gym: Gym) -> None:
    gym.in_flight = {"url 0": 3, "url 1": 4, "url 2": None}
    gym.history.begin()
    await until(lambda: gym.path.exists() and gym.on_disk()["nodes"][0]["in_flight"] == 7)
    assert gym.on_disk()["ended_at"] is None
    gym.in_flight = {"url 0": 1, "url 1": 0, "url 2": 5}
    await until(lambda: gym.on_disk()["nodes"][0]["in_flight"] == 1)
    found = await gym.at_the_end()
    assert [(each["in_flight"], each["most_in_flight"]) for each in found["nodes"]] == [(1, 7), (5, 5)]
    assert found["ended_at"] == pytest.approx(found["at"])


async def test_the_end_of_the_nodes_with_their_gym_is_no_loss(gym: Gym) -> None:
    found = await gym.at_the_end()
    gym.change_node("a", state="lost", losses=1)
    await asyncio.sleep(0.3)
    assert gym.on_disk() == found
    assert [each["text"] for each in found["events"]] == UP


async def test_events_are_bounded_and_those_left_out_are_counted(gym: Gym) -> None:
    for restarts in range(1, 1200):
        gym.change_replicas([0], restarts=restarts)
    found = await gym.at_the_end()
    assert (len(found["events"]), found["left_out"]) == (1000, 201)
    assert found["nodes"][0]["restarts"] == 1199


async def test_a_full_disk_is_told_once_and_stops_nothing(tmp_path: Path) -> None:
    gym = Gym(tmp_path / "missing")
    gym.history.note(gym.record())
    gym.change_node("a", state="lost", losses=1)
    await gym.history.close()
    (line,) = gym.lines
    assert line.endswith("cannot be written: No such file or directory; the viewer lacks the nodes")
