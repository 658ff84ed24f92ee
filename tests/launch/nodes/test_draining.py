"""The wait until replicas have finished their sessions, with sessions that this test plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.launch._spawners import Child, ServerProcess
from nemo_gym.launch._states import ServerState
from nemo_gym.launch._supervisor import SupervisedServer
from nemo_gym.launch.nodes.draining import LEARNT_WITHIN_S, Draining
from nemo_gym.transport.directory import choose_home

SESSIONS = [f"task-{n}" for n in range(20)]
AT_1 = sorted(each for each in SESSIONS if choose_home(each, 2) == 1)


def server(name: str, kind: str, replica: int) -> SupervisedServer:
    process = ServerProcess(Path(), [], [], Bootstrap(name, {}, "", "", []), Path())
    made = SupervisedServer(name, kind, "", replica, "", process, state=ServerState.READY)
    made.child = Child(1, lambda number: None)
    return made


class Played:
    """Servers whose sessions are those of a list, one entry for every time that they are asked."""

    def __init__(self, sessions: Mapping[str, Sequence[Any]]) -> None:
        kinds = {"env": "resources_servers", "agent": "responses_api_agents", "model": "responses_api_models"}
        self.servers = [server(name, kinds[name], replica) for name in kinds for replica in range(2)]
        self.slept: list[float] = []
        self._sessions = {name: list(each) for name, each in sessions.items()}

    async def ask(self, asked: SupervisedServer) -> set[str] | None:
        left = self._sessions.get(f"{asked.name}/{asked.replica}", [[]])
        sessions = left.pop(0) if len(left) > 1 else left[0]
        return None if sessions is None else set(sessions)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def wait(self, name: str, timeout_s: float = 60.0) -> list[str]:
        leaving = [each for each in self.servers if (each.name, each.replica) == (name, 1)]
        return await Draining(self.servers, self.ask, self.sleep).wait(leaving, 2, 1, timeout_s)


async def test_callers_learn_of_it_before_the_replica_is_asked_until_it_has_no_session() -> None:
    played = Played({"env/1": [["a", "b"], ["b"], []]})
    assert await played.wait("env") == []
    assert played.slept == [LEARNT_WITHIN_S, 0.5, 0.5]


async def test_a_replica_that_does_not_answer_is_asked_again() -> None:
    played = Played({"env/1": [None, ["a"], None, []]})
    assert await played.wait("env") == []
    assert len(played.slept) == 4


async def test_sessions_that_are_left_at_the_bound_are_named() -> None:
    assert await Played({"env/1": [["b", "a"]]}).wait("env", timeout_s=0) == ["a", "b"]


async def test_a_replica_whose_process_has_ended_has_no_sessions() -> None:
    played = Played({"env/1": [["a"]]})
    next(
        each for each in played.servers if each.name == "env" and each.replica == 1
    ).state = ServerState.STOPPED
    assert await played.wait("env") == []


async def test_a_model_server_stays_until_the_rollouts_that_it_serves_are_over() -> None:
    played = Played({"agent/0": [SESSIONS, [*AT_1[:1], "later"], ["later"]], "env/0": [SESSIONS[:3], []]})
    assert await played.wait("model") == []
    assert len(played.slept) == 3
    late = Played({"agent/0": [SESSIONS]})
    assert await late.wait("model", timeout_s=0) == AT_1


async def test_a_model_server_stays_while_an_agent_does_not_answer() -> None:
    played = Played({"agent/0": [None, SESSIONS, []]})
    assert await played.wait("model") == []
    assert len(played.slept) == 3
