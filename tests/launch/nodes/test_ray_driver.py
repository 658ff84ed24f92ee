"""What the process that talks to Ray decides by itself. `make test-cluster` runs it with a real Ray."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_gym.launch.nodes.ray_driver import Driver, Json, NodeHostActor, RefusedError
from tests.waiting import until


@dataclass
class Cluster:
    """The part of the module `ray` that needs no worker."""

    address: str
    alive: list[tuple[str, str]]
    """The names and ids of its nodes."""
    util: Any = field(default_factory=lambda: SimpleNamespace(get_node_ip_address=lambda: "10.0.0.1"))
    exceptions: Any = field(default_factory=lambda: SimpleNamespace(RayError=ConnectionError))
    remote: Any = None

    def nodes(self) -> list[Json]:
        return [
            {
                "NodeID": each,
                "NodeName": name,
                "NodeManagerAddress": self.address,
                "Alive": True,
                "Resources": {},
            }
            for name, each in self.alive
        ]


def ignore(message: Json) -> None:
    """Receive an answer that the test does not read."""


def test_a_cluster_on_loopback_needs_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    found = Driver(Cluster("127.0.0.1", [("a", "1")]), ignore).describe()
    assert found["nodes"] == [{"id": "1", "name": "a", "resources": {}}]


def test_a_cluster_that_others_reach_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(Cluster("10.0.0.1", [("a", "1")]), ignore)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(RefusedError, match=r"Ray listens on 10\.0\.0\.1 without token authentication"):
        driver.describe()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert driver.describe()["address"] == "10.0.0.1"


def test_a_node_that_came_back_has_its_name_and_another_id() -> None:
    cluster = Cluster("127.0.0.1", [("a", "1"), ("b", "2")])
    driver = Driver(cluster, ignore)
    assert driver.find_node("a", "a", "1") == "1"
    cluster.alive = [("b", "2")]
    with pytest.raises(RefusedError, match="Ray has no node a now"):
        driver.find_node("a", "a", "1")
    cluster.alive = [("b", "2"), ("a", "3")]
    assert driver.find_node("a", "a", "1") == "3"


async def test_answers_have_the_numbers_of_their_requests() -> None:
    answers: list[Json] = []
    driver = Driver(Cluster("127.0.0.1", []), answers.append)
    requests = asyncio.StreamReader()
    request = {"kind": "start", "number": 2, "actor": 1, "host": "a", "name": "a", "node": "1"}
    requests.feed_data(json.dumps(request).encode() + b"\n")
    requests.feed_eof()
    await driver.serve(requests)
    await until(lambda: answers)
    refused = {"code": "no_ray_node", "message": "Ray has no node a now.", "remedy": ""}
    assert answers == [{"kind": "answer", "number": 2, "refused": refused}]


async def test_an_unexpected_error_is_answered() -> None:
    answers: list[Json] = []
    requests = asyncio.StreamReader()
    requests.feed_data(b'{"kind": "release", "number": 3}\n')
    requests.feed_eof()
    await Driver(Cluster("127.0.0.1", []), answers.append).serve(requests)
    await until(lambda: answers)
    assert answers[0]["refused"]["code"] == "ray_failed"


def test_the_actor_starts_its_child_with_the_document_and_without_the_variables_of_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "path")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    actor = NodeHostActor()
    program = "import os, sys; print(sys.stdin.read(), sys.argv[1], [*os.environ]); sys.exit(3)"
    actor.start([sys.executable, "-c", program], "the document", [], {})
    output = b"".join(iter(actor.read, b"")).decode()
    assert output.startswith(f"the document {os.getpid()} ")
    assert "RAY_" not in output
    assert "OMP_NUM_THREADS" not in output
    assert actor.wait() == 3


def test_an_environment_decides_on_the_interpreter_and_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    actor = NodeHostActor()
    program = "import os, sys; print(sys.executable, os.environ['OMP_NUM_THREADS'], os.environ['A_TOKEN'])"
    actor.start(["", "-c", program], "", ["OMP_NUM_THREADS"], {"A_TOKEN": "secret"})
    assert b"".join(iter(actor.read, b"")).decode() == f"{sys.executable} 1 secret\n"
    assert actor.wait() == 0


class CannotBuild(Exception):
    """In the place of Ray's error for an environment that cannot be made."""


class Actor:
    """An actor that answers every call with an error, after its creation has failed."""

    def __init__(self, error: str) -> None:
        self.has_token_mode = SimpleNamespace(remote=self._fail)
        self._error = error

    async def _fail(self) -> None:
        raise CannotBuild(self._error)


PIP = "Traceback\nLast 50 lines of stdout:\n    Looking for x\n    ERROR: no x\n"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (PIP, "Looking for x\nERROR: no x"),
        ("Traceback\nRuntimeError: Please install it", "RuntimeError: Please install it"),
    ],
)
async def test_an_environment_that_cannot_be_built_is_a_refusal_with_the_node_and_the_output(
    error: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node)
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
    cluster = Cluster("127.0.0.1", [("a", "1")])
    cluster.exceptions.RuntimeEnvSetupError = CannotBuild
    created = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: Actor(error)))
    cluster.remote = lambda _: created
    answers: list[Json] = []
    requests = asyncio.StreamReader()
    request = {"kind": "start", "number": 2, "actor": 1, "host": "a", "name": "a", "node": "1"}
    requests.feed_data(json.dumps(request).encode() + b"\n")
    requests.feed_eof()
    await Driver(cluster, answers.append).serve(requests)
    await until(lambda: answers)
    [refused] = [answer["refused"] for answer in answers]
    assert refused["code"] == "ray_runtime_env"
    assert refused["message"] == f"Ray cannot make the environment of ray_runtime_env on a:\n{shown}"


def test_it_says_that_a_cluster_cannot_be_used_and_ends() -> None:
    """Without Ray it fails as a process that Ray has ended."""
    words = [sys.executable, "-P", "-m", "nemo_gym.launch.nodes.ray_driver", str(os.getpid())]
    first = b'{"address": "127.0.0.1:9", "environment": {}}\n'
    done = subprocess.run(words, input=first, capture_output=True, timeout=120, check=False)
    assert b"No module named 'ray'" in done.stderr or b"cannot be used" in done.stdout
