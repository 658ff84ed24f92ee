"""Servers in the launcher's process: reachable by socket, and by each other in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.config import bootstrap
from nemo_gym.config.loading import GlobalConfig, load
from nemo_gym.discovery_files import DISCOVERY_FILE
from nemo_gym.global_config import get_global_config_dict, maybe_get_global_config_dict
from nemo_gym.launch._inline_spawner import InlineSpawner
from nemo_gym.launch._states import RestartPolicy, ServerState
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.gym import LaunchOptions, launch
from nemo_gym.launch.records import Registry
from nemo_gym.rollouts.run.discovery import find_gym
from nemo_gym.server_utils import get_server_url
from nemo_gym.transport import Call, HttpTransport, InMemoryTransport
from tests.certificates import Authority
from tests.launch.small_servers import config_of, small_instance, write_server

ENVIRONMENT = "example_session_state_mgmt"
AGENT = f"{ENVIRONMENT}_simple_agent"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml"
)


@pytest.fixture
def config() -> GlobalConfig:
    script = "++policy_model.responses_api_models.scripted_model.engine"
    policy = [f"{script}.policy=script", f"{script}.script=configs/demo/counter_script.yaml"]
    return load([f"+config_paths=[{CONFIGS}]", "++head_server.port=0", *policy], env_path=None)


def options(folder: Path) -> LaunchOptions:
    return LaunchOptions(
        working_folder=folder,
        registry=Registry(folder / "registry"),
        policy=RestartPolicy(deaths_at_start=1, first_delay_s=0.01),
        placement="inline",
    )


async def test_servers_are_reached_on_their_sockets_and_in_memory(
    config: GlobalConfig, tmp_path: Path
) -> None:
    example = PARENT_DIR / f"resources_servers/{ENVIRONMENT}/data/example.jsonl"
    row = example.read_bytes().splitlines()[0]
    async with launch(config, options(tmp_path)) as gym:
        await gym.wait_ready()
        assert {server.state for server in gym.servers} == {ServerState.READY}
        assert get_server_url(ENVIRONMENT) == gym.addresses[ENVIRONMENT][0]
        assert get_global_config_dict()["policy_model"]["responses_api_models"]["scripted_model"]["port"]
        found = await find_gym(tmp_path)
        outside, within, inside = HttpTransport(), HttpTransport(), gym.transport
        found.caller(within)  # which uses the sockets within the machine
        assert isinstance(inside, InMemoryTransport)
        headers = {"content-type": "application/json", "x-ng-token": found.token or ""}
        for transport in (outside, within, inside):
            reply = await transport.send(gym.addresses[AGENT][0], Call("POST", "/run", row, dict(headers)))
            assert reply.json()["reward"] == 1.0
        listed = await outside.send(gym.head_url, Call("GET", "/server_instances"))
        assert {each["name"]: each["url"] for each in listed.json()} == {
            name: urls[0] for name, urls in gym.addresses.items()
        }
        for transport in (outside, within):
            await transport.close()
    assert {server.state for server in gym.servers} == {ServerState.STOPPED}
    assert not (tmp_path / DISCOVERY_FILE).exists()
    assert bootstrap.current() is None
    assert maybe_get_global_config_dict() is None


async def test_with_tls_the_sockets_speak_it_and_memory_needs_none(
    config: GlobalConfig, tmp_path: Path
) -> None:
    tls = Authority(tmp_path / "tls").issue()
    config.data["tls"] = tls
    async with launch(config, options(tmp_path)) as gym:
        await gym.wait_ready()
        assert gym.head_url.startswith("https://")
        assert gym.transport is not None
        outside = HttpTransport(ca=tls["ca"])
        for transport in (outside, gym.transport):
            assert (await transport.send(gym.addresses[AGENT][0], Call("GET", "/health"))).ok
        await outside.close()


async def test_a_server_that_does_not_start_ends_the_gym_with_its_root_cause(tmp_path: Path) -> None:
    folder = write_server(tmp_path / "resources_servers" / "small")
    (folder / "app.py").write_text(
        "from nemo_gym.base_resources_server import SimpleResourcesServer\n"
        "class Broken(SimpleResourcesServer):\n"
        "    def model_post_init(self, context):\n"
        "        raise ZeroDivisionError('no such thing')\n"
        "    async def verify(self, body):\n"
        "        pass\n"
        "if __name__ == '__main__':\n"
        "    Broken.run_webserver()\n"
    )
    instance = small_instance("broken", folder)
    async with launch(config_of(instance), options(tmp_path)) as gym:
        with pytest.raises(LaunchError, match="ZeroDivisionError: no such thing"):
            await gym.wait_ready()


async def test_a_server_with_unmet_requirements_is_refused(config: GlobalConfig, tmp_path: Path) -> None:
    async with launch(config, options(tmp_path)) as gym:
        process = gym.servers[1].process
        spawner = InlineSpawner()
        with pytest.raises(LaunchError, match="needs its own environment"):
            await spawner.spawn(replace(process, python="/elsewhere/python"))


async def test_a_server_that_swallows_cancellation_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_server(tmp_path / "resources_servers" / "small")
    (folder / "app.py").write_text(
        "import asyncio\n"
        "import contextlib\n"
        "import time\n"
        "from nemo_gym.base_resources_server import SimpleResourcesServer\n"
        "class Clinging(SimpleResourcesServer):\n"
        "    async def on_stop(self):\n"
        "        until = time.monotonic() + 4\n"
        "        while time.monotonic() < until:\n"
        "            with contextlib.suppress(asyncio.CancelledError):\n"
        "                await asyncio.sleep(0.1)\n"
        "    async def verify(self, body):\n"
        "        pass\n"
        "if __name__ == '__main__':\n"
        "    Clinging.run_webserver()\n"
    )
    async with launch(config_of(small_instance("clinging", folder)), options(tmp_path)) as gym:
        await gym.wait_ready()
    assert "1 servers did not end within 1 s and keep running" in caplog.text
