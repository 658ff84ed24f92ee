"""A gym of three small servers in a folder, and shorthands to load configurations there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.loading import GlobalConfig, load
from nemo_gym.config.options import Inspect
from nemo_gym.config.problems import ConfigErrors, Problem

APPS = {
    "resources_servers/weather": """
from nemo_gym.base_resources_server import BaseResourcesServerConfig, SimpleResourcesServer

class WeatherConfig(BaseResourcesServerConfig):
    cities: int = 1

class Weather(SimpleResourcesServer):
    config: WeatherConfig

if __name__ == "__main__":
    Weather.run_webserver()
""",
    "responses_api_models/small_model": """
from nemo_gym.base_responses_api_model import BaseResponsesAPIModelConfig, SimpleResponsesAPIModel

class SmallModelConfig(BaseResponsesAPIModelConfig):
    base_url: str | list[str]
    api_key: str
    model: str
    headers: dict[str, str] = {}

class SmallModel(SimpleResponsesAPIModel):
    config: SmallModelConfig

if __name__ == "__main__":
    SmallModel.run_webserver()
""",
    "responses_api_agents/small_agent": """
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent

class SmallAgentConfig(BaseResponsesAPIAgentConfig):
    resources_server: dict[str, str]
    model_server: dict[str, str]
    max_steps: int | None = None

class SmallAgent(SimpleResponsesAPIAgent):
    config: SmallAgentConfig

if __name__ == "__main__":
    SmallAgent.run_webserver()
""",
}

MODEL = """\
policy_model:
  responses_api_models:
    small_model:
      entrypoint: app.py
      base_url: ${policy_base_url}
      api_key: ${policy_api_key}
      model: ${policy_model_name}
"""

WEATHER = """\
weather:
  resources_servers:
    weather:
      entrypoint: app.py
      domain: agent
weather_agent:
  responses_api_agents:
    small_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: weather}
      model_server: {type: responses_api_models, name: policy_model}
      max_steps: 3
"""

POLICY = (
    "+policy_base_url=http://localhost:8000/v1",
    "+policy_api_key=sk-canary-123",
    "+policy_model_name=m",
)
"""Overrides that a configuration with `MODEL` needs."""


def write_gym(folder: Path, **files: str) -> Path:
    """Write the three servers and the given `<name>.yaml` files into `folder`."""
    for place, source in APPS.items():
        (folder / place).mkdir(parents=True)
        (folder / place / "app.py").write_text(source)
    for name, text in {"model": MODEL, "weather": WEATHER, **files}.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def load_in(
    folder: Path,
    *overrides: str,
    initial: Mapping[str, Any] | None = None,
    inspect: Inspect | None = None,
) -> GlobalConfig:
    return load(overrides, initial=initial, working_directory=folder, inspect=inspect)


def load_text(folder: Path, text: str, *overrides: str) -> GlobalConfig:
    """Load one file, `main.yaml`."""
    (folder / "main.yaml").write_text(text)
    return load_in(folder, "+config_paths=[main.yaml]", *overrides)


def problems_in(
    folder: Path,
    *overrides: str,
    initial: Mapping[str, Any] | None = None,
    inspect: Inspect | None = None,
) -> list[Problem]:
    """Load, and return the problems, of which there must be at least one."""
    with pytest.raises(ConfigErrors) as raised:
        load_in(folder, *overrides, initial=initial, inspect=inspect)
    return raised.value.problems


def problems_of(folder: Path, text: str, *overrides: str) -> list[Problem]:
    """The problems of one file, `main.yaml`."""
    (folder / "main.yaml").write_text(text)
    return problems_in(folder, "+config_paths=[main.yaml]", *overrides)


def only(problems: list[Problem]) -> tuple[str, str, str]:
    """Return location, message and remedy of the only problem."""
    assert len(problems) == 1, problems
    return str(problems[0].where), problems[0].message, problems[0].remedy or ""
