"""A gym inside a trainer, with its servers on other machines: the calls of NeMo RL and verl, without their training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.snippets import DOCS, snippets_of
from nemo_gym import PARENT_DIR
from tests.cluster.cluster_gym import BIN, ENVIRONMENT
from tests.cluster.namespaces import Machines, machines, running_in, why_not
from tests.cluster.trainer import ROWS
from tests.tokens.checks import read_as_nemo_rl
from tests.waiting import wait_until

TRAINER = PARENT_DIR / "tests" / "cluster" / "trainer.py"
CONFIGS = [
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml",
    "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml",
]
pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def elsewhere(net: Machines) -> dict[str, Any]:
    """The keys of the page, for the machines and the environment of this test."""
    page = (DOCS / "cluster_recipes.md").read_text(encoding="utf-8")
    (text,) = [each.text for each in snippets_of(page) if each.file == "elsewhere.yaml"]
    keys = yaml.safe_load(text)
    placement = keys.pop("workplace_assistant")["resources_servers"]["workplace_assistant"]["placement"]
    server = {"resources_servers": {ENVIRONMENT: {"placement": {**placement, "replicas": 2, "num_cpus": 1}}}}
    return {**keys, "hosts": list(net.hosts), "host_command": net.host_command, ENVIRONMENT: server}


def as_nemo_rl(net: Machines, folder: Path) -> dict[str, Any]:
    """`env.nemo_gym` of a NeMo RL job, and what its actor adds."""
    address = net.address(net.names[0])
    return {
        **elsewhere(net),
        "config_paths": CONFIGS,
        "default_host": address,
        "port_range_low": 5000,
        "port_range_high": 5999,
    }


def as_verl(net: Machines, folder: Path) -> dict[str, Any]:
    """The recipe of verl takes only paths: the keys are in a file."""
    (folder / "elsewhere.yaml").write_text(yaml.safe_dump(elsewhere(net)))
    return {
        "config_paths": [*CONFIGS, str(folder / "elsewhere.yaml")],
        "policy_model": {"responses_api_models": {"vllm_model": {"uses_reasoning_parser": False}}},
        "uv_venv_dir": str(folder),
        "skip_venv_if_present": True,
    }


class Training:
    """The trainer's process on the first machine."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def roll_out(self) -> list[dict[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("more\n")
        self._process.stdin.flush()
        results: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return results

    def end(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(60)


@contextmanager
def engine(net: Machines, folder: Path) -> Iterator[str]:
    """An engine on the trainer's machine, as its URL."""
    words = [str(BIN / "ng_mock_engine"), "+host=0.0.0.0", "+port=8000", "+model=policy"]
    log = folder / "engine.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(net.command(net.names[0], *words), stdout=file, stderr=file)
    try:
        wait_until(lambda: "mock engine" in log.read_text() or process.poll() is not None)
        yield f"http://{net.address(net.names[0])}:8000/v1"
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def training(net: Machines, folder: Path, initial: Mapping[str, Any]) -> Iterator[Training]:
    """A trainer that has started a gym with the configuration `initial`."""
    (folder / "runtime").mkdir(mode=0o700)
    with (folder / "trainer.txt").open("w") as log:
        process = subprocess.Popen(
            net.command(net.names[0], sys.executable, str(TRAINER), json.dumps(initial)),
            cwd=folder,
            env={**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime"), "PYTHONPATH": str(PARENT_DIR)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        try:
            yield Training(process)
        finally:
            process.kill()


@pytest.mark.parametrize("trainer", [as_nemo_rl, as_verl])
def test_a_trainer_whose_gym_is_elsewhere(trainer: Any, tmp_path: Path) -> None:
    with machines(2) as net, engine(net, tmp_path) as url:
        address = net.address(net.names[0])
        initial = {
            **trainer(net, tmp_path),
            "policy_base_url": [url],
            "policy_api_key": "dummy_key",
            "policy_model_name": "policy",
            "global_aiohttp_connector_limit_per_host": 16_384,
            "global_aiohttp_connector_limit": 65_536,
            "ray_head_node_address": f"{address}:6379",
            "head_server": {"host": "0.0.0.0", "port": 5123},
            "advertised_host": address,
        }
        with training(net, tmp_path, initial) as trained:
            check(trained.roll_out(), tmp_path)
            assert all(running_in(name) for name in net.hosts)
            for pid in running_in(net.hosts[1]):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: "was lost; its replicas" in (tmp_path / "trainer.txt").read_text())
            check(trained.roll_out(), tmp_path)
            assert trained.end() == 0
        assert "was destroyed" not in (tmp_path / "trainer.txt").read_text()
        wait_until(lambda: not any(running_in(name) for name in net.hosts))


def check(results: list[dict[str, Any]], folder: Path) -> None:
    assert [result["reward"] for result in results] == [1.0] * ROWS, (folder / "trainer.txt").read_text()
    for result in results:
        assert read_as_nemo_rl(result)
