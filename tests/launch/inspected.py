"""Configurations whose implementations are inspected."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.config.loading import GlobalConfig
from nemo_gym.config.problems import Problem
from nemo_gym.launch.inspection import inspector
from tests.config.small_gym import POLICY, load_in, problems_in

LINE = ("+config_paths=[weather.yaml,model.yaml]", *POLICY)


WEATHER = "weather.resources_servers.weather"


APP = "resources_servers/weather/app.py"


def loaded(folder: Path, *overrides: str) -> GlobalConfig:
    with inspector() as inspect:
        return load_in(folder, *LINE, *overrides, inspect=inspect)


def problems(folder: Path, *overrides: str) -> list[Problem]:
    with inspector() as inspect:
        return problems_in(folder, *LINE, *overrides, inspect=inspect)


def put_first(folder: Path, text: str) -> None:
    """Begin the environment's `app.py` with `text`."""
    app = folder / APP
    app.write_text(text + app.read_text())
