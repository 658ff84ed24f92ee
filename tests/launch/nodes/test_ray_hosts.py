"""The nodes of a Ray cluster as hosts, with a program in the place of the process that talks to Ray."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.config.keys import RayRuntimeEnv
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.places import Moved
from nemo_gym.launch.nodes.placing import ReplicaKey
from nemo_gym.launch.nodes.ray_hosts import RayHosts

STAND_IN = """
import json, sys

def send(**message):
    print(json.dumps(message), flush=True)

first = json.loads(sys.stdin.readline())
refusal = {"code": "no_ray", "message": f"there is no cluster for {first['environment']}", "remedy": "Start one."}
if first["address"] == "refused":
    send(kind="refused", refused=refusal)
    sys.exit()
if first["address"] == "broken":
    sys.exit(7)
resources = {"CPU": 4.0, "GPU": 1.0}
send(kind="connected", address="10.0.0.1", nodes=[{"id": "1", "name": "a", "resources": resources}])
for line in sys.stdin:
    request = json.loads(line)
    with open(CALLS, "a") as file:
        file.write(f"{request['kind']} {request.get('replica') or request.get('host') or request.get('actor')}\\n")
    answer = {"kind": "answer", "number": request["number"], "value": None}
    if request["kind"] == "start":
        refusal["message"] += f" and {request['secrets']}"
        if request["document"] == "refuse":
            answer["refused"] = refusal
        send(**answer)
        send(kind="output", actor=request["actor"], text=f"document: {request['document']}")
        if request["document"] == "end":
            send(kind="ended", actor=request["actor"], how="exit code 3")
        if request["document"] == "end all":
            break
    elif request["kind"] == "reserve":
        send(**{**answer, "value": ["5"] if request["needs"] == {"num_gpus": 1} else None})
"""
ENV, AGENT = ReplicaKey("env", 0), ReplicaKey("agent", 1)


@asynccontextmanager
async def hosts_on(
    folder: Path, address: str = "auto", environment: RayRuntimeEnv | None = None
) -> AsyncIterator[RayHosts]:
    """Hosts of one node. `calls.txt` in `folder` has the requests."""
    (folder / "calls.txt").touch()
    program = folder / "stand_in.py"
    program.write_text(STAND_IN.replace("CALLS", repr(str(folder / "calls.txt"))))
    hosts = RayHosts(
        address, folder / "ray.log", environment or RayRuntimeEnv(), (sys.executable, str(program))
    )
    await hosts.find_nodes(())
    yield hosts
    await hosts.close()


def calls(folder: Path) -> list[str]:
    return (folder / "calls.txt").read_text().splitlines()


async def test_a_node_host_is_started_and_its_output_and_end_are_reported(tmp_path: Path) -> None:
    async with hosts_on(tmp_path) as hosts:
        assert [(keys.host, keys.num_cpus, keys.num_gpus) for keys in hosts.keys] == [("a", 4.0, 1)]
        assert hosts.own_address == "10.0.0.1"
        started = await hosts.start("a", b"end", tmp_path / "node.log")
        assert started.ends_node
        assert await started.wait() == "exit code 3"
        await started.end()
    assert (tmp_path / "node.log").read_text() == "document: end"
    assert calls(tmp_path) == ["start a", "kill 1"]


async def test_a_refusal_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    async with hosts_on(tmp_path) as hosts:
        with pytest.raises(LaunchError, match=r"there is no cluster for {} and {}\. Start one\."):
            await hosts.start("a", b"refuse", tmp_path / "node.log")


async def test_secrets_reach_the_driver_apart_from_the_environment_and_no_message_shows_them(
    tmp_path: Path,
) -> None:
    environment = RayRuntimeEnv(env_vars={"A_TOKEN": "a-secret-of-the-user", "A_CHOICE": "1"})
    async with hosts_on(tmp_path, environment=environment) as hosts:
        with pytest.raises(LaunchError) as caught:
            await hosts.start("a", b"refuse", tmp_path / "node.log")
    message = caught.value.failure.message
    assert "'env_vars': {'A_CHOICE': '1'}" in message
    assert "and {'A_TOKEN': '****'}" in message


@pytest.mark.parametrize(
    ("environment", "moved"),
    [
        (RayRuntimeEnv(env_vars={"A_CHOICE": "1"}), None),
        (RayRuntimeEnv(working_dir="/home"), Moved(str(PARENT_DIR), "/home", [])),
        (RayRuntimeEnv(uv=["x"], py_modules=["/module"]), Moved(str(PARENT_DIR), None, ["/module"])),
    ],
)
def test_copied_folders_and_other_interpreters_have_their_own_places(
    environment: RayRuntimeEnv, moved: Moved | None, tmp_path: Path
) -> None:
    assert RayHosts("auto", tmp_path / "ray.log", environment).moved == moved


def test_the_advice_names_the_interpreter_that_needs_the_gym(tmp_path: Path) -> None:
    assert sys.executable in RayHosts("auto", tmp_path / "ray.log").remedy("a")
    built = RayHosts("auto", tmp_path / "ray.log", RayRuntimeEnv(pip=["x"]))
    assert "ray_runtime_env must install it" in built.remedy("a")


async def test_a_wrong_environment_and_a_wrong_address_are_told_together(tmp_path: Path) -> None:
    config = {"ray_address": "local", "ray_runtime_env": {"conda": "x"}}
    with pytest.raises(ConfigErrors) as caught:
        await RayHosts.connect(config, tmp_path, tmp_path)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("address", "message"),
    [("refused", r"there is no cluster for {}\. Start one\."), ("broken", "has ended with exit code 7")],
)
async def test_a_cluster_that_cannot_be_used_is_a_wrong_configuration(
    address: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        async with hosts_on(tmp_path, address):
            pass


async def test_only_replicas_with_needs_are_reserved_and_released(tmp_path: Path) -> None:
    async with hosts_on(tmp_path) as hosts:
        assert await hosts.reserve("a", AGENT, {}) == ()
        assert await hosts.reserve("a", AGENT, {"num_cpus": 1}) is None
        assert await hosts.reserve("a", ENV, {"num_gpus": 1}) == ["5"]
        hosts.release(AGENT)
        hosts.release(ENV)
        hosts.release(ENV)
    assert calls(tmp_path) == ["reserve agent.1", "reserve env.0", "release env.0"]


async def test_the_end_of_ray_ends_the_nodes_and_a_later_start_connects_again(tmp_path: Path) -> None:
    async with hosts_on(tmp_path) as hosts:
        started = await hosts.start("a", b"end all", tmp_path / "node.log")
        assert await started.wait() == "the connection to Ray"
        again = await hosts.start("a", b"end", tmp_path / "node.log")
        assert await again.wait() == "exit code 3"


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed here")
async def test_the_package_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the gym's extra `ray`"):
        await RayHosts.connect({}, tmp_path, tmp_path)
