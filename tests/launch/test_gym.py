"""Whole gyms of tiny servers: real processes, real sockets, the real fork server."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

import pytest
import yaml

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.discovery_files import DISCOVERY_FILE
from nemo_gym.failures import ConfigError
from nemo_gym.launch._states import ServerState
from nemo_gym.launch.gym import launch
from nemo_gym.processes.fork_server import ForkServerGone
from nemo_gym.transport import HttpTransport, local_sockets
from nemo_gym.transport.moving_caller import build_caller
from tests.launch.small_servers import (
    WITH_DAEMON,
    Workbench,
    config_of,
    facts_of,
)
from tests.waiting import is_running, wait_until_gone


async def test_every_server_answers_with_its_name(bench: Workbench) -> None:
    config = config_of(bench.instance("first"), bench.instance("second"))
    async with launch(config, bench.options()) as gym:
        await gym.wait_ready()
        for name in ("first", "second"):
            facts = await facts_of(gym.addresses[name][0])
            assert facts["name"] == name
            assert facts["folder"] == facts["path"] == str(bench.folder / name)
            assert facts["argv"] == [str(bench.folder / name / "app.py")]
        assert (await facts_of(gym.head_url))["name"] == "head_server"


async def test_addresses_are_published_before_any_server_runs(bench: Workbench) -> None:
    async with launch(config_of(bench.instance("alone")), bench.options()) as gym:
        block = gym.config["alone"]["resources_servers"]["small"]
        assert gym.addresses["alone"] == (f"http://{block['host']}:{block['port']}",)
        assert gym.config["head_server"]["port"] == urlsplit(gym.head_url).port
        # Without waiting for readiness: the probe waits in the backlog until the server accepts.
        assert (await facts_of(gym.addresses["alone"][0]))["name"] == "alone"


async def test_each_worker_is_a_process_with_its_own_socket(bench: Workbench) -> None:
    async with launch(config_of(bench.instance("wide", num_workers=3)), bench.options()) as gym:
        await gym.wait_ready()
        ports = gym.config["wide"]["resources_servers"]["small"]["_ng_replica_ports"]
        assert [urlsplit(url).port for url in gym.addresses["wide"]] == ports
        facts = [await facts_of(url) for url in gym.addresses["wide"]]
        assert [each["replica"] for each in facts] == [0, 1, 2]
        assert len({each["pid"] for each in facts}) == 3


@pytest.mark.skipif(not local_sockets.IS_SUPPORTED, reason="abstract names exist on Linux only")
async def test_a_server_is_called_within_the_machine_without_its_port(bench: Workbench) -> None:
    async with launch(config_of(bench.instance("alone")), bench.options()) as gym:
        await gym.wait_ready()
        transport = HttpTransport()
        try:
            reply = await build_caller(gym.config, transport, gym.token).call("alone", "GET", "/")
        finally:
            await transport.close()
        assert reply.json()["socket"] == "AF_UNIX"
        assert (await facts_of(gym.addresses["alone"][0]))["socket"] == "AF_INET"


async def test_orphans_of_a_server_end_with_the_gym(bench: Workbench) -> None:
    async with launch(config_of(bench.instance("parent", WITH_DAEMON)), bench.options()) as gym:
        await gym.wait_ready()
        daemon = int((bench.folder / "parent" / "daemon.pid").read_text())
        assert is_running(daemon)
    wait_until_gone(daemon)


async def test_leaving_before_the_servers_are_ready_ends_all(bench: Workbench) -> None:
    options = bench.options()
    async with launch(config_of(bench.instance("never_seen")), options) as gym:
        pass
    assert {server.state for server in gym.servers} == {ServerState.STOPPED}
    assert options.fork_server is not None
    with pytest.raises(ForkServerGone):
        options.fork_server.start()


async def test_the_discovery_file_is_private_without_secrets_and_removed_at_the_end(bench: Workbench) -> None:
    config = config_of(bench.instance("alone"), policy_api_key="sk-very-secret", policy_model_name="m")
    path = bench.folder / DISCOVERY_FILE
    async with launch(config, bench.options()) as gym:
        text = path.read_text()
        assert path.stat().st_mode & 0o777 == 0o600
        document = yaml.safe_load(text)
        assert "sk-very-secret" not in text
        assert document["policy_model_name"] == "m"
        assert (
            document["alone"]["resources_servers"]["small"]["port"]
            == urlsplit(gym.addresses["alone"][0]).port
        )
        assert document["_ng_run"] == {
            "pid": os.getpid(),
            "token": gym.token,
            "started_at": gym.run.started_at,
            "head": gym.head_url,
            "logs": str(gym.log_folder),
            "ca": None,
        }
    assert not path.exists()


async def test_a_second_gym_of_a_folder_says_its_name_and_leaves_the_first_its_file(bench: Workbench) -> None:
    async with launch(config_of(bench.instance("first")), bench.options()) as first:
        async with launch(config_of(bench.instance("second")), bench.options()) as second:
            assert (first.discovery_name, second.discovery_name) == ("", "2")
            assert second.record().name == "2"
            assert any("commands take +discovery_name=2" in line for line in bench.lines)
            assert yaml.safe_load(first.discovery_file.read_text())["first"]
        assert first.discovery_file.exists()
        assert not second.discovery_file.exists()


async def test_a_taken_discovery_name_ends_a_gym_before_any_server_starts(bench: Workbench) -> None:
    config = config_of(bench.instance("alone"), discovery_name="mine")
    async with launch(config, bench.options()):
        options = bench.options()
        with pytest.raises(ConfigError, match="'mine' already"):
            async with launch(config, options):
                pass
        assert options.fork_server is not None
        with pytest.raises(ForkServerGone):
            options.fork_server.start()


async def test_the_registry_shows_the_gym_while_it_runs(bench: Workbench) -> None:
    async with launch(config_of(bench.instance("alone")), bench.options()) as gym:
        await gym.wait_ready()
        (record,) = bench.registry.list_running()
        assert {server.name: server.state for server in record.servers} == {
            "head_server": "ready",
            "alone": "ready",
        }
        assert record == gym.record()
    assert bench.registry.list_running() == []


async def test_logs_hold_a_servers_output_and_are_private(bench: Workbench) -> None:
    async with launch(config_of(bench.instance("chatty")), bench.options()) as gym:
        await gym.wait_ready()
        log = gym.servers[1].log_path
        assert log.read_text() == "serving\n"
        assert log.name == "chatty.log"
        assert log.stat().st_mode & 0o777 == 0o600


async def test_a_taken_port_is_named_with_its_holder_and_nothing_is_started(bench: Workbench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = config_of(bench.instance("wants_it"))
        config.data["wants_it"]["resources_servers"]["small"]["port"] = port
        with pytest.raises(
            ConfigErrors, match=rf"port {port} of `wants_it` is taken by pid {os.getpid()} \("
        ):
            async with launch(config, bench.options(fork_server=None)):
                pytest.fail("the gym started")


async def test_an_environment_for_ray_needs_ray(bench: Workbench) -> None:
    config = config_of(bench.instance("alone"), ray_runtime_env={"pip": ["x"]})
    with pytest.raises(ConfigError, match=r"ray_runtime_env has an effect with \+placement=ray only"):
        async with launch(config, bench.options()):
            pytest.fail("the gym started")
