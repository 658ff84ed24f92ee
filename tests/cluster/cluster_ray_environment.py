"""`ray_runtime_env` on a real Ray: packages, folders and variables that only Ray brings to a node.

Every node is a network namespace with a folder of its own, because Ray builds environments in there.
"""

from __future__ import annotations

import importlib.util
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.cluster_gym import TASKS, run_once
from tests.cluster.ray_network import RayNetwork, ray_network
from tests.cluster.ray_nodes import why_not
from tests.e2e.gym_run import read_lines

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SECRET = "a-secret-of-the-user-0815"
RULED = """
import os
from fastapi import Request
from resources_servers.example_session_state_mgmt.app import (
    CounterVerifyRequest, CounterVerifyResponse, ExampleSessionStateMgmtResourcesServer
)
import a_rule_of_ray

class Answer(CounterVerifyResponse):
    rule: str
    app: str
    choice: str
    has_secret: bool
    names: list[str]

class Ruled(ExampleSessionStateMgmtResourcesServer):
    async def verify(self, request: Request, body: CounterVerifyRequest) -> Answer:
        answer = await super().verify(request, body)
        return Answer(**dict(answer), rule=a_rule_of_ray.RULE, app=__file__, choice=os.environ.get("A_CHOICE", ""),
                      has_secret=os.environ.get("A_TOKEN") == "a-secret-of-the-user-0815", names=sorted(os.environ))

if __name__ == "__main__":
    Ruled.run_webserver()
"""
AGENT = "ruled_agent"


@pytest.fixture(scope="module")
def net() -> Iterator[RayNetwork]:
    with ray_network(2) as network:
        yield network


def write_environment(folder: Path) -> None:
    """Write an environment that needs the module `a_rule_of_ray`, which no interpreter here has."""
    server = folder / "resources_servers" / "ruled"
    server.mkdir(parents=True)
    (server / "app.py").write_text(RULED)
    agent = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": "ruled"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "max_steps": 20,
    }
    blocks = {
        "ruled": {
            "resources_servers": {
                "ruled": {"entrypoint": "app.py", "domain": "other", "placement": {"replicas": 2}}
            }
        },
        AGENT: {"responses_api_agents": {"simple_agent": agent}},
    }
    (folder / "gym.yaml").write_text(yaml.safe_dump(blocks))


def collected(net: RayNetwork, folder: Path, *keys: str) -> subprocess.CompletedProcess[str]:
    """A run with the environment."""
    write_environment(folder)
    return run_once(
        net,
        folder,
        *net.keys(),
        f"+agent_name={AGENT}",
        "+input_jsonl_fpath=resources_servers/example_session_state_mgmt/data/example.jsonl",
        "+num_repeats=4",
        *keys,
        configs="gym.yaml,responses_api_models/scripted_model/configs/scripted_model.yaml",
    )


def rows_of(done: subprocess.CompletedProcess[str], folder: Path) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr[-5000:]
    rows = read_lines(folder / "out.jsonl")
    assert len(rows) == 4 * TASKS
    return rows


def write_wheel(folder: Path) -> Path:
    """Write a wheel with the module."""
    path = folder / "a_rule_of_ray-1.0-py3-none-any.whl"
    about = "a_rule_of_ray-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("a_rule_of_ray.py", "RULE = 'of the wheel'\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: a-rule-of-ray\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", f"a_rule_of_ray.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n")
    return path


def write_module(folder: Path) -> Path:
    """Write a folder with the module as a package."""
    module = folder / "modules" / "a_rule_of_ray"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("RULE = 'of the folder'\n")
    return module


def test_copied_folders_and_variables_reach_servers(net: RayNetwork, tmp_path: Path) -> None:
    module = write_module(tmp_path)
    environment = {
        "py_modules": [str(module)],
        "working_dir": ".",
        "env_vars": {"A_CHOICE": "of the user", "A_TOKEN": SECRET, "OMP_NUM_THREADS": "3"},
    }
    (tmp_path / "ray.yaml").write_text(yaml.safe_dump(environment))
    done = collected(net, tmp_path, "+ray_runtime_env=ray.yaml")
    (tmp_path / "ray.yaml").unlink()
    for row in rows_of(done, tmp_path):
        assert (row["rule"], row["choice"], row["has_secret"]) == ("of the folder", "of the user", True)
        assert Path(row["app"]).is_relative_to(net.folder), "the code is that of Ray's copy"
        assert "OMP_NUM_THREADS" in row["names"]
        assert not [name for name in row["names"] if name.startswith("RAY_")]
    assert SECRET not in done.stdout + done.stderr
    found = subprocess.run(
        ["grep", "-rl", SECRET, str(net.folder), str(tmp_path)], capture_output=True, text=True, check=False
    )
    copies = [line for line in found.stdout.splitlines() if not line.endswith(("ray.yaml", "app.py"))]
    assert not copies


@pytest.mark.parametrize(
    "installer",
    [
        "pip",
        pytest.param(
            "uv",
            marks=pytest.mark.skipif(
                importlib.util.find_spec("uv") is None,
                reason="Ray would fetch uv from the network, which the nodes have not",
            ),
        ),
    ],
)
def test_an_installed_package_reaches_servers_of_both_nodes(
    installer: str, net: RayNetwork, tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path)
    done = collected(net, tmp_path, f"+ray_runtime_env={{{installer}: ['{wheel}']}}")
    assert {row["rule"] for row in rows_of(done, tmp_path)} == {"of the wheel"}


def test_an_environment_that_cannot_be_built_names_the_node_and_the_installer_s_message(
    net: RayNetwork, tmp_path: Path
) -> None:
    listing = "{packages: [no-such-package-of-this-test], pip_install_options: [--no-index]}"
    done = collected(net, tmp_path, f"+ray_runtime_env={{pip: {listing}}}")
    assert done.returncode == 1, done.stderr
    assert f"Ray cannot make the environment of ray_runtime_env on {net.prefix}" in done.stderr
    assert "No matching distribution found for no-such-package-of-this-test" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_an_environment_that_ray_does_not_know_is_refused(net: RayNetwork, tmp_path: Path) -> None:
    done = collected(net, tmp_path, "+ray_runtime_env={pip: {package: [x]}}")
    assert done.returncode == 2, done.stderr
    assert "Ray refuses ray_runtime_env" in done.stderr
