from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nemo_gym.client import Gym
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.global_config import (
    GlobalConfigDictParserConfig,
    get_global_config_dict,
    set_global_config_dict,
)
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.records import Registry
from nemo_gym.launch.run_helper import RunHelper
from nemo_gym.transport import Call, call_once_blocking
from nemo_gym.transport.server_client import ServerClient
from tests.launch.small_servers import write_server
from tests.waiting import wait_until_gone

TRAINER = """
import os, sys, time
from nemo_gym.global_config import GlobalConfigDictParserConfig
from nemo_gym.launch.records import Registry
from nemo_gym.launch.run_helper import RunHelper

initial = {"config_paths": ["gym.yaml"], "head_server": {"port": 0}}
helper = RunHelper()
helper.start(GlobalConfigDictParserConfig(initial_global_config_dict=initial, skip_load_from_cli=True))
(record,) = Registry().list_running()
fork = os.fork()
if fork:
    print(fork, record.run.pid, *(server.pid for server in record.servers), flush=True)
else:
    os.close(1)
time.sleep(300)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a small resources server and a configuration for it."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.chdir(tmp_path)
    write_server(tmp_path / "resources_servers" / "small")
    (tmp_path / "gym.yaml").write_text(
        "small_env:\n  resources_servers:\n    small: {entrypoint: app.py, domain: other, verified: false}\n"
    )
    return tmp_path


def embedded(**keys: object) -> GlobalConfigDictParserConfig:
    initial = {"config_paths": ["gym.yaml"], "head_server": {"port": 0}, **keys}
    return GlobalConfigDictParserConfig(initial_global_config_dict=initial, skip_load_from_cli=True)


def wait_until_poll_raises(helper: RunHelper) -> LaunchError:
    give_up_at = time.monotonic() + 10
    while time.monotonic() < give_up_at:
        try:
            helper.poll()
        except LaunchError as error:
            return error
        time.sleep(0.02)
    raise TimeoutError


def test_a_trainer_starts_polls_and_ends_a_gym(project: Path) -> None:
    helper = RunHelper()
    helper.start(global_config_dict_parser_config=embedded())
    try:
        helper.poll()
        config = get_global_config_dict()
        (record,) = Registry().list_running()
        block = config["small_env"]["resources_servers"]["small"]
        assert record.servers[1].url == f"http://{block['host']}:{block['port']}"
        assert record.run.token == config["run_token"]
        assert record.run.head == helper.head_url
        assert record.run.pid != os.getpid()
    finally:
        helper.shutdown()
        set_global_config_dict(None)
    for server in record.servers:
        assert server.pid is not None
        wait_until_gone(server.pid)
    helper.shutdown()
    with pytest.raises(LaunchError, match="runs no gym"):
        helper.poll()


def test_a_file_of_the_configuration_puts_the_servers_on_hosts(project: Path) -> None:
    (project / "elsewhere.yaml").write_text("placement: hosts\nhosts: [one]\nhost_command: env HOST={host}\n")
    helper = RunHelper()
    helper.start(embedded(config_paths=["gym.yaml", "elsewhere.yaml"], advertised_host="127.0.0.1"))
    try:
        (record,) = Registry().list_running()
        assert [node.name for node in record.nodes] == ["one"]
        assert record.servers[1].node == "one"
    finally:
        helper.shutdown()
        set_global_config_dict(None)


def test_a_placement_that_a_trainer_cannot_call_is_refused(project: Path) -> None:
    with pytest.raises(ConfigErrors, match="cannot call servers"):
        RunHelper().start(embedded(placement="inline"))


def test_poll_raises_the_failure_of_a_server(project: Path) -> None:
    helper = RunHelper()
    helper.start(embedded())
    try:
        app = project / "resources_servers" / "small" / "app.py"
        app.write_text("raise RuntimeError('the grader is gone')")
        (record,) = Registry().list_running()
        assert record.servers[1].pid is not None
        os.kill(record.servers[1].pid, signal.SIGKILL)
        error = wait_until_poll_raises(helper)
        assert error.failure.message.startswith("RuntimeError: the grader is gone")
        assert error.failure.peer == "small_env"
    finally:
        helper.shutdown()
        set_global_config_dict(None)


def test_start_raises_for_a_server_that_does_not_start_and_leaves_no_process(project: Path) -> None:
    (project / "resources_servers" / "small" / "app.py").write_text("import not_there")
    helper = RunHelper()
    with pytest.raises(LaunchError, match="No module named 'not_there'"):
        helper.start(embedded())
    assert Registry().list_running() == []


def test_an_invalid_configuration_raises_config_errors(project: Path) -> None:
    with pytest.raises(ConfigErrors, match="no_such_key"):
        RunHelper().start(
            embedded(small_env={"resources_servers": {"no_such_key": {"entrypoint": "app.py"}}})
        )


def test_the_gym_ends_with_a_killed_trainer_whose_fork_survives(project: Path) -> None:
    script = project / "trainer.py"
    script.write_text(TRAINER)
    with subprocess.Popen([sys.executable, script], cwd=project, stdout=subprocess.PIPE) as trainer:
        assert trainer.stdout is not None
        fork, *pids = map(int, trainer.stdout.readline().split())
        trainer.kill()
    for pid in pids:
        wait_until_gone(pid)
    os.kill(fork, signal.SIGKILL)


def test_a_trainer_calls_its_own_gym_on_an_open_address_without_passing_the_token(project: Path) -> None:
    helper = RunHelper()
    helper.start(embedded(default_host="0.0.0.0"))
    try:
        config = get_global_config_dict()
        head = BaseServerConfig(host="127.0.0.1", port=config["head_server"]["port"])
        call = Call("GET", "/server_instances")
        assert helper.head_url is not None
        assert call_once_blocking(helper.head_url, call, timeout_s=30).status == 401
        client = ServerClient.load_from_global_config(head)

        async def token_of_client() -> str | None:
            return client.caller().token

        assert "small_env" in client.global_config_dict
        assert asyncio.run(token_of_client()) == config["run_token"]
        assert Gym.connect(url=helper.head_url).address.token == config["run_token"]
    finally:
        helper.shutdown()
        set_global_config_dict(None)
