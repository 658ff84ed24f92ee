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
    return [f"+config_paths=[{file},{ENVIRONMENT},{MODEL}]", *overrides]


def names_for(agent: str) -> list[str]:
    block = f"{agent}.responses_api_agents.{agent}"
    names = [f"{block}.resources_server.name=mcqa"]
    return [*names, f"{block}.user_model_server.name=policy_model"] if "user" in agent else names


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
    agent = file.stem
    block = load(words_for(file, *names_for(agent))).data[agent]["responses_api_agents"][agent]
    server = agent_class_of(agent).standalone(**{**block, "name": agent})
    routes = {route.path for route in server.setup_webserver().routes}
    assert {"/run", "/v1/responses", "/aggregate_metrics"} <= routes
    assert server.resources_server_name == "mcqa"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_left_open_is_named(file: Path) -> None:
    with pytest.raises(
        ConfigError, match=rf"{file.stem}.responses_api_agents.{file.stem}.resources_server.name"
    ):
        load(words_for(file))


def test_every_agent_has_a_configuration_of_its_name_and_a_readme() -> None:
    folders = sorted(path.parent for path in FOLDER.glob("*/app.py"))
    assert [folder.name for folder in folders] == [file.stem for file in FILES]
    assert [folder.name for folder in folders if not (folder / "README.md").is_file()] == []
