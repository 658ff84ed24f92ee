"""The configurations of the agents compose, report missing values, and start their agents."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.base_responses_api_agent import SimpleResponsesAPIAgent
from nemo_gym.config.loading import load
from nemo_gym.failures import ConfigError

FOLDER = PARENT_DIR / "responses_api_agents"
FILES = sorted(FOLDER.glob("*/configs/*.yaml"))
ENVIRONMENT = PARENT_DIR / "resources_servers" / "mcqa" / "configs" / "mcqa.yaml"
MODEL = PARENT_DIR / "responses_api_models" / "scripted_model" / "configs" / "scripted_model.yaml"


def words_for(file: Path, *overrides: str) -> list[str]:
    is_installed = "harness_folder" in file.read_text(encoding="utf-8")
    folder = ["+harness_folder=/opt/harnesses"] if is_installed else []
    return [f"+config_paths=[{file},{ENVIRONMENT},{MODEL}]", *folder, *overrides]


def block_of(file: Path) -> str:
    return f"{file.stem}.responses_api_agents.{file.parents[1].name}"


def names_for(file: Path) -> list[str]:
    block = block_of(file)
    further = {
        "user_simulation_agent": [f"{block}.user_model_server.name=policy_model"],
        "external_agent": [f"{block}.command=[my-agent]"],
    }
    return [f"{block}.resources_server.name=mcqa", *further.get(file.stem, [])]


def agent_class_of(agent: str) -> Any:
    module = import_module(f"responses_api_agents.{agent}.app")
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, SimpleResponsesAPIAgent)
        and value.__module__ == module.__name__
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_agent_starts_from_its_configuration(file: Path) -> None:
    name, agent = file.stem, file.parents[1].name
    block = load(words_for(file, *names_for(file))).data[name]["responses_api_agents"][agent]
    server = agent_class_of(agent).standalone(**{**block, "name": name})
    routes = {route.path for route in server.setup_webserver().routes}
    assert {"/run", "/v1/responses", "/aggregate_metrics"} <= routes
    assert server.resources_server_name == "mcqa"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_left_open_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match=f"{block_of(file)}.resources_server.name"):
        load(words_for(file))


def test_every_agent_has_a_configuration_of_its_name_and_a_readme() -> None:
    folders = sorted(path.parent for path in FOLDER.glob("*/app.py"))
    own = [file.stem for file in FILES if file.stem == file.parents[1].name]
    assert [folder.name for folder in folders] == own
    assert [folder.name for folder in folders if not (folder / "README.md").is_file()] == []
