"""Replicas that are added and removed while a gym runs, on two node hosts of this machine."""

from __future__ import annotations

import asyncio
import json

import orjson

from nemo_gym.launch.gym import RunningGym, launch
from nemo_gym.launch.plan import HEAD_SCRIPT
from nemo_gym.names import DIRECTORY_KEY, NODES_FILE, SCALE_ROUTE, TOKEN_HEADER
from nemo_gym.transport import Call, Reply, call_once
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
