"""Servers on nodes: two node hosts of this machine, on loopback. `make test-cluster` has machines of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import Any

import psutil
import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.discovery_files import DISCOVERY_FILE
from nemo_gym.launch._states import ServerState
from nemo_gym.launch._supervisor import SupervisedServer
from nemo_gym.launch.gym import LaunchOptions, RunningGym, launch
from nemo_gym.launch.plan import HEAD_SCRIPT
from nemo_gym.names import DIRECTORY_KEY, NODES_FILE
from nemo_gym.transport import Call, call_once
from nemo_gym.transport.moving_directory import MovingDirectory, build_directory
from tests.launch.small_servers import Workbench, config_of, facts_of
from tests.waiting import until, until_gone

HOSTS: dict[str, Any] = {
    "hosts": ["first", "second"],
    "host_command": "env NODE={host}",
    "advertised_host": "127.0.0.1",
    "head_server": {"host": "127.0.0.1", "port": 0},
}


def on_hosts(bench: Workbench) -> LaunchOptions:
    return bench.options(placement="hosts")


FIRST_IS_DOWN = "first_is_down"
"""A file in the working folder. While it exists, no node host starts on the first node."""


def lasting_hosts(bench: Workbench) -> dict[str, Any]:
    """The hosts, of which the first stays down once the test has taken it down."""
    command = bench.folder / "start.sh"
    command.write_text(
        f'test $1 = second -o ! -e "{bench.folder}/{FIRST_IS_DOWN}" && NODE=$1 exec "${{@:2}}"'
    )
    return {**HOSTS, "host_command": f"bash {command} {{host}}"}


def node_host(name: str) -> psutil.Process:
    """The node host of this test's process on a node."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # another one that has just ended
            if child.environ().get("NODE") == name:
                return child
    raise LookupError(name)


async def test_replicas_run_on_nodes_are_restarted_there_and_move_when_their_node_is_lost(
    bench: Workbench,
) -> None:
    config = config_of(bench.instance("env", num_workers=3), bench.instance("agent"), **lasting_hosts(bench))
    async with launch(config, bench.options(placement="hosts", head_script=HEAD_SCRIPT)) as gym:
        await gym.wait_ready()
        await check_places(gym)
        check_secrets(gym)
        await check_restart(next(each for each in gym.servers if each.name == "agent"))
        await check_move(gym, bench)
        pids = [node_host("second").pid, *(each.pid or 0 for each in gym.servers)]
    check_history(gym)
    for pid in pids:
        await until_gone(pid)


async def check_places(gym: RunningGym) -> None:
    """The replicas are on both nodes, below their node hosts, and every directory has their addresses."""
    remote = gym.servers[1:]
    assert {server.place.node for server in remote} == {"first", "second"}
    for server in remote:
        facts = await facts_of(server.url)
        assert (facts["name"], facts["replica"], facts["pid"]) == (server.name, server.replica, server.pid)
        assert node_host(server.place.node) in psutil.Process(server.pid).parents()
        await until(lambda server=server: "serving" in server.log_path.read_text())  # type: ignore[misc]
    assert build_directory(gym.config).replicas("env") == gym.addresses["env"]
    reply = await call_once(gym.head_url, Call("GET", "/_ng/directory"), timeout_s=30)
    assert reply.json()["servers"]["env"] == [[url, 1] for url in gym.addresses["env"]]


def check_secrets(gym: RunningGym) -> None:
    """The token is neither on a command line nor in the environment of a process."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            assert gym.token not in " ".join([*process.cmdline(), *process.environ().values()])


async def check_restart(server: SupervisedServer) -> None:
    """A server that dies is restarted at its address."""
    before, url = server.pid, server.url
    os.kill(before or 0, signal.SIGKILL)
    await until(lambda: server.restarts == 1 and server.state is ServerState.READY)
    assert (server.url, server.place.generation) == (url, 1)
    assert (await facts_of(url))["pid"] == server.pid != before


def check_history(gym: RunningGym) -> None:
    """The file for the viewer has what happened, and so has the log of the lost node."""
    history = json.loads((gym.log_folder / NODES_FILE).read_text())
    first, second = history["nodes"]
    assert (first["state"], first["losses"], first["replicas"]) == ("lost", 1, {})
    assert (second["state"], second["replicas"], second["generation"]) == ("up", {"env": 3, "agent": 1}, 2)
    texts = [each["text"] for each in history["events"]]
    (lost,) = (each for each in history["events"] if each["kind"] == "lost")
    before, after = texts[: texts.index(lost["text"])], history["events"][texts.index(lost["text"]) + 1 :]
    assert texts[:2] == ["the node first is up", "the node second is up"]
    assert any(text.startswith("agent #0 was restarted on") for text in before), texts
    moved = [each["replicas"][0] for each in after if each["kind"] == "moved"]
    assert (lost["node"], sorted(moved)) == ("first", sorted(lost["replicas"])), texts
    assert {each["log"] for each in history["replicas"]} <= {each.name for each in gym.log_folder.iterdir()}
    assert "the node first was lost, with" in (gym.log_folder / first["log"]).read_text()


async def check_move(gym: RunningGym, bench: Workbench) -> None:
    """The replicas of a lost node are started on the other one, with new addresses and generations."""
    lost = [each for each in gym.servers if each.place.node == "first"]
    pids = [each.pid or 0 for each in lost]
    version = MovingDirectory(gym.config[DIRECTORY_KEY]).version
    (bench.folder / FIRST_IS_DOWN).touch()
    node_host("first").kill()
    await until(lambda: all(each.place.node == "second" and each.state is ServerState.READY for each in lost))
    for pid in pids:
        await until_gone(pid)
    later = MovingDirectory(gym.config[DIRECTORY_KEY])
    assert later.version > version
    assert {later.generation(each.url) for each in lost} == {each.place.generation for each in lost} == {2}
    await until(lambda: any(each.nodes[0].state == "lost" for each in bench.registry.list_running()))
    assert [(each.name, each.losses) for each in gym.record().nodes] == [("first", 1), ("second", 0)]
    await until(lambda: "the node first was lost; its replicas are started elsewhere" in bench.lines)
    assert gym.addresses["env"][0] in (bench.folder / DISCOVERY_FILE).read_text()


async def test_needs_that_no_node_meets_are_refused_before_a_server_starts(bench: Workbench) -> None:
    instance = bench.instance("env")
    config = config_of(instance, **HOSTS)
    instance.config["placement"] = {"num_cpus": 10_000}  # type: ignore[index]
    with pytest.raises(ConfigErrors, match="env: 1 replicas of 10000 num_cpus do not fit: first has"):
        async with launch(config, on_hosts(bench)):
            pass


async def test_a_host_that_cannot_be_reached_is_named(bench: Workbench) -> None:
    config = config_of(bench.instance("env"), **{**HOSTS, "host_command": "false {host}"})
    with pytest.raises(Exception, match=r"the node host on (first|second) has ended with exit code 1"):
        async with launch(config, on_hosts(bench)):
            pass
