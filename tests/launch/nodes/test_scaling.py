"""Replicas that are added and removed while a gym runs, on two node hosts of this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.launch._spawners import Child, ServerProcess
from nemo_gym.launch._states import ServerState
from nemo_gym.launch._supervisor import SupervisedServer
from nemo_gym.launch.gym import RunningGym, launch
from nemo_gym.launch.nodes.scaling import LEARNT_WITHIN_S, Draining
from nemo_gym.launch.plan import HEAD_SCRIPT
from nemo_gym.names import DIRECTORY_KEY, NODES_FILE, SCALE_ROUTE, TOKEN_HEADER
from nemo_gym.transport import Call, Reply, call_once
from nemo_gym.transport.directory import choose_home
from nemo_gym.transport.moving_directory import MovingDirectory
from tests.launch.nodes.test_hosts_spawner import HOSTS
from tests.launch.small_servers import Workbench, config_of, facts_of
from tests.waiting import until, until_gone

REFUSALS: list[tuple[dict[str, int], str]] = [
    ({"en": 3}, "no server is named en. Did you mean 'env'?"),
    ({"env": 0}, "env: 0 replicas. A server has at least 1."),
    ({"head_server": 2}, "head_server always has one process."),
    ({"env": 7}, "env: 5 replicas of 1 seats do not fit: first has 3 seats and 0 seats left"),
    ({"agent": 2, "env": 7}, "env: 5 replicas of 1 seats do not fit"),
    ({"env": -1, "agnt": 1}, "Did you mean 'agent'?"),
    ({}, "no server is named."),
]


async def scaled(gym: RunningGym, drain_timeout_s: float = 60.0, **servers: int) -> Reply:
    body = orjson.dumps({"servers": servers, "drain_timeout_s": drain_timeout_s})
    headers = {"content-type": "application/json", TOKEN_HEADER: gym.token}
    return await call_once(gym.head_url, Call("POST", SCALE_ROUTE, body, headers), timeout_s=120)


def message_of(reply: Reply) -> str:
    return str(reply.json()["error"]["message"])


def directory_of(gym: RunningGym) -> MovingDirectory:
    return MovingDirectory(gym.config[DIRECTORY_KEY])


async def replicas_of(gym: RunningGym) -> dict[int, int]:
    """The replicas of the environment that the head server publishes: number → pid."""
    reply = await call_once(gym.head_url, Call("GET", "/_ng/directory"), timeout_s=30)
    pairs = reply.json()["servers"]["env"]
    facts = [await facts_of(url) for url, _ in pairs]
    assert [each["replica"] for each in facts] == list(range(len(pairs)))
    return {each["replica"]: each["pid"] for each in facts}


async def test_replicas_are_added_and_removed_while_the_gym_runs(bench: Workbench) -> None:
    env = bench.instance("env", num_workers=2)
    env.config["placement"] = {"resources": {"seats": 1}}  # type: ignore[index]
    seats = [{"host": name, "resources": {"seats": 3}} for name in ("first", "second")]
    config = config_of(env, bench.instance("agent"), **{**HOSTS, "hosts": seats})
    async with launch(config, bench.options(placement="hosts", head_script=HEAD_SCRIPT)) as gym:
        await gym.wait_ready()
        await check_refusals(gym)
        await check_added_replicas(gym)
        await check_lost_sessions(gym, bench)
        await check_finished_sessions(gym, bench)
        await check_a_number_that_is_used_again(gym)
        (bench.folder / "env" / "app.py").write_text("raise SystemExit('broken')")
        failed = await scaled(gym, env=3)
        assert (failed.status, "broken" in message_of(failed)) == (500, True)
        assert len(await replicas_of(gym)) == 2
        assert not gym.failure.done()
    check_history(gym)


def check_history(gym: RunningGym) -> None:
    """The file for the viewer has each change once, and none that failed."""
    events = json.loads((gym.log_folder / NODES_FILE).read_text())["events"]
    scaled = [each["text"].partition(";")[0] for each in events if each["kind"] == "scaled"]
    assert scaled == [
        "env has 6 replicas instead of 2",
        "env has 3 replicas instead of 6",
        "env has 2 replicas instead of 3",
        "env has 3 replicas instead of 2",
        "env has 2 replicas instead of 3",
    ]


async def check_refusals(gym: RunningGym) -> None:
    before = gym.config[DIRECTORY_KEY]["servers"]
    for servers, problem in REFUSALS:
        refused = await scaled(gym, **servers)
        assert refused.status == 409
        assert problem in message_of(refused)
        assert gym.config[DIRECTORY_KEY]["servers"] == before
    call = Call("POST", SCALE_ROUTE, b"{}", {"content-type": "application/json"})
    assert (await call_once(gym.head_url, call, timeout_s=30)).status == 401


async def check_added_replicas(gym: RunningGym) -> None:
    """Replicas are added on both nodes, as many as there is room for, and the others are left alone."""
    before = await replicas_of(gym)
    answers = await asyncio.gather(scaled(gym, env=6), scaled(gym, env=6))
    (answer,) = (each for each in answers if each.ok)
    (refused,) = (each for each in answers if not each.ok)
    assert "env is being scaled" in message_of(refused)
    assert answer.json()["servers"] == {"env": {"before": 2, "after": 6, "lost_sessions": []}}
    after = await replicas_of(gym)
    assert before.items() <= after.items()
    assert len(after) == len(gym.addresses["env"]) == 6
    assert sorted(each.place.node for each in gym.servers if each.name == "env") == [
        *["first"] * 3,
        *["second"] * 3,
    ]


async def check_lost_sessions(gym: RunningGym, bench: Workbench) -> None:
    """Sessions that do not end in time are named."""
    (bench.folder / "env" / "busy.5").write_text("task-7 task-3")
    answer = await scaled(gym, drain_timeout_s=0, env=3)
    assert answer.json()["servers"]["env"]["lost_sessions"] == ["task-3", "task-7"]
    assert any("2 sessions did not end within 0 s" in line and "task-3" in line for line in bench.lines)


async def check_finished_sessions(gym: RunningGym, bench: Workbench) -> None:
    """A replica takes no new sessions, finishes those that it has, and ends."""
    pids, busy = await replicas_of(gym), bench.folder / "env" / "busy.2"
    busy.write_text("a b")
    scaling = asyncio.create_task(scaled(gym, env=2))
    await until(lambda: directory_of(gym)._taking == {"env": 2})
    (leaving,) = (each for each in gym.servers if (each.name, each.replica) == ("env", 2))
    assert leaving.state == "draining"
    refused = await scaled(gym, env=4)
    assert (refused.status, "env is being scaled" in message_of(refused)) == (409, True)
    assert len(await replicas_of(gym)) == 3
    busy.unlink()
    assert (await scaling).json()["servers"]["env"]["lost_sessions"] == []
    assert leaving.state == "stopped"
    assert leaving not in gym.servers
    assert (await replicas_of(gym)).items() <= pids.items()
    await until_gone(pids[2])


async def check_a_number_that_is_used_again(gym: RunningGym) -> None:
    """It is another generation, so that nobody takes it for the replica that was removed."""
    await scaled(gym, env=3)
    directory = directory_of(gym)
    assert directory.has_lost("env/2/1")
    assert directory.generation(directory.replicas("env")[2]) == 2
    await scaled(gym, drain_timeout_s=0, env=2)


# --- Draining ---------------------------------------------------------------------------------------------------------


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
