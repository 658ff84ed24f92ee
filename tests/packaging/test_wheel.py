"""The wheel in an environment of its own: its commands work from an empty folder, without a checkout.

It installs what the package needs from the package registry, which takes a minute: `make test-packaging`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR

pytestmark = pytest.mark.skipif(
    "NEMO_GYM_TEST_PACKAGING" not in os.environ, reason="installs a wheel: make test-packaging"
)
PACKAGES = {
    "nemo_gym",
    "resources_servers",
    "responses_api_agents",
    "responses_api_models",
    "environment_servers",
}
BESIDE_THE_PACKAGE = ("configs", "perf", "simulation", "tests")
OWN = "resources_servers/my_environment"
BUILT_IN = "resources_servers/example_single_tool_call"
CONFIGS = (
    f"+config_paths=[{OWN}/configs/my_environment.yaml,{BUILT_IN}/configs/example_single_tool_call.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml]"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", str(PARENT_DIR), "--no-deps", "--wheel-dir", str(folder)], check=True)
    (path,) = folder.glob("*.whl")
    return path


class Installed:
    """The wheel's commands, with an empty folder to run them in."""

    def __init__(self, commands: Path, folder: Path) -> None:
        self.commands, self.folder = commands, folder
        own = ("PYTHONPATH", "NEMO_GYM_WORKING_DIR")
        runtime = folder.with_name("runtime")  # lists the gyms that run: these, and no others of this machine
        runtime.mkdir(mode=0o700)
        self.environment = {name: value for name, value in os.environ.items() if name not in own}
        self.environment["XDG_RUNTIME_DIR"] = str(runtime)

    def run(self, command: str, *arguments: str) -> str:
        """Run the command, which must succeed, and return its output."""
        done = subprocess.run(
            [self.commands / command, *arguments],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command} {arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.commands / command, *arguments],
            cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, the test runner that `ng_test` uses, and a new environment in the folder."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [str(folder / "venv/bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", str(wheel), "pytest", "pytest-asyncio"], check=True)
    (folder / "empty").mkdir()
    gym = Installed(folder / "venv" / "bin", folder / "empty")
    gym.run("ng_init_resources_server", f"+entrypoint={OWN}")
    return gym


def test_the_wheel_holds_our_packages_and_configurations_and_no_tests(wheel: Path) -> None:
    files = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]
    top = {path.parts[0] for path in files}
    assert {name for name in top if not name.endswith(".dist-info")} == PACKAGES
    template = Path("nemo_gym/authoring/template/tests/test_app.py.txt")
    assert [path for path in files if "tests" in path.parts] == [template]
    configs = {path.relative_to(PARENT_DIR / "configs") for path in (PARENT_DIR / "configs").rglob("*.*")}
    packed = {
        path.relative_to("nemo_gym/configs") for path in files if path.is_relative_to("nemo_gym/configs")
    }
    assert packed == configs
    data = [path.relative_to(PARENT_DIR) for path in PARENT_DIR.glob("res*_servers/*/data/*.jsonl")]
    assert data
    assert set(data) <= set(files)


def test_nothing_of_the_checkout_is_an_import_package(installed: Installed) -> None:
    code = f"from importlib.util import find_spec; print([n for n in {BESIDE_THE_PACKAGE} if find_spec(n)])"
    assert installed.run("python", "-c", code) == "[]\n"
    version = json.loads(installed.run("ng_version", "+json=true"))
    assert Path(version["installed_in"]).is_relative_to(installed.commands.parent)


def test_configurations_of_the_gym_are_found_from_any_folder(installed: Installed) -> None:
    found = json.loads(installed.run("ng_validate", "+config_paths=[configs/demo.yaml]", "+json=true"))
    assert found["warnings"] == []
    datasets = {dataset["server"]: Path(dataset["file"]) for dataset in found["datasets"]}
    assert datasets["reasoning_gym_simple_agent"].match("nemo_gym/configs/demo/reasoning_tasks.jsonl")


def test_the_tests_of_a_new_environment_pass(installed: Installed) -> None:
    assert f"{OWN}: passed" in installed.run("ng_test", f"+entrypoint={OWN}")


@pytest.mark.parametrize("placement", ["process", "inline"])
def test_rollouts_of_own_and_built_in_environments_are_collected(
    installed: Installed, placement: str
) -> None:
    output = f"+output_jsonl_fpath=results/{placement}.jsonl"
    printed = installed.run(
        "ng_e2e_collect_rollouts",
        CONFIGS,
        output,
        f"+placement={placement}",
        "++head_server.port=0",
        "+json=true",
    )
    summary = json.loads(printed)
    assert summary["end"] == "complete"
    assert {agent["agent"]: agent["failed"] for agent in summary["agents"]} == {
        "my_environment_simple_agent": 0,
        "example_single_tool_call_simple_agent": 0,
    }


def test_servers_run_and_have_a_status_until_they_are_stopped(installed: Installed) -> None:
    with installed.start("ng_run", CONFIGS, "++head_server.port=0", "+json=true") as gym:
        try:
            assert gym.stdout is not None
            assert any(json.loads(line)["event"] == "ready" for line in gym.stdout)
            (seen,) = json.loads(installed.run("ng_status", "+json=true"))
            assert {server["state"] for server in seen["servers"]} == {"ready"}
            gym.terminate()
            gym.stdout.read()
            assert gym.wait() == 0
        finally:
            gym.kill()
