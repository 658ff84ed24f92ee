from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.authoring.scaffold import build_class_name, scaffold
from nemo_gym.config.loading import load
from nemo_gym.failures import ConfigError

SCRIPTED = "responses_api_models/scripted_model/configs/scripted_model.yaml"


def test_an_environment_has_everything_and_thirty_lines_of_code(tmp_path: Path) -> None:
    written = {
        path.relative_to(tmp_path).as_posix(): path for path in scaffold("resources_servers/my_env", tmp_path)
    }
    assert list(written) == [
        f"resources_servers/my_env/{name}"
        for name in (
            "README.md",
            "app.py",
            "configs/my_env.yaml",
            "data/example.jsonl",
            "data/example_gold.yaml",
            "tests/test_app.py",
        )
    ]
    code = written["resources_servers/my_env/app.py"].read_text()
    assert len([line for line in code.splitlines() if line]) <= 30
    assert "class MyEnv(SimpleResourcesServer)" in code
    assert not [
        path for path in written.values() if "NAME" in path.read_text() or "CLASS" in path.read_text()
    ]
    assert len(written["resources_servers/my_env/data/example.jsonl"].read_text().splitlines()) == 5


def test_its_configuration_is_valid_and_its_code_is_formatted(tmp_path: Path) -> None:
    scaffold("my_env", tmp_path)
    config = load(
        [f"+config_paths=[resources_servers/my_env/configs/my_env.yaml,{SCRIPTED}]"],
        working_directory=tmp_path,
    )
    assert {server.name for server in config.servers} == {"my_env", "my_env_simple_agent", "policy_model"}
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(PARENT_DIR / "pyproject.toml")]
    for command in (
        ["format", "--check"],
        ["check", "--ignore", "I001"],
    ):  # the import order differs there
        subprocess.run([*ruff, *command, *settings, "."], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("name", "class_name"), [("guess", "Guess"), ("guess_number", "GuessNumber"), ("a1__b", "A1B")]
)
def test_classes_are_named_after_their_folders(name: str, class_name: str) -> None:
    assert build_class_name(name) == class_name


def test_an_agent_has_its_template_in_the_documentation(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"docs/agents\.md"):
        scaffold("responses_api_agents/my_agent", tmp_path)


@pytest.mark.parametrize(
    "entrypoint", ["resources_servers/My-Env", "resources_servers/class", "9lives", "", "a/b/c"]
)
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, entrypoint: str) -> None:
    with pytest.raises(ConfigError):
        scaffold(entrypoint, tmp_path)
    assert list(tmp_path.iterdir()) == []
