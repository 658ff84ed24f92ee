"""Every declared dataset has the agent that runs its rows, or none if that is not certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.datasets.declared import declared_datasets
from tests.config.small_gym import load_text, write_gym

DATASETS = "datasets: [{name: d, type: train, license: MIT, jsonl_fpath: rows.jsonl%s}]"
ENVIRONMENT = """\
weather:
  resources_servers:
    weather: {entrypoint: app.py, domain: agent, %s}
"""
AGENT = """\
%s:
  responses_api_agents:
    small_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: weather}
      model_server: {type: responses_api_models, name: policy_model}
      %s
"""
MODEL = """\
policy_model:
  responses_api_models:
    small_model: {entrypoint: app.py, base_url: "http://h/v1", api_key: k, model: m}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    return write_gym(tmp_path)


def agents_of(folder: Path, text: str) -> list[str | None]:
    return [each.agent for each in declared_datasets(load_text(folder, MODEL + text))]


def test_a_dataset_of_an_environment_is_for_its_only_agent(folder: Path) -> None:
    environment = ENVIRONMENT % (DATASETS % "")
    assert agents_of(folder, environment + AGENT % ("one", "")) == ["one"]


def test_with_several_agents_the_rows_must_name_theirs(folder: Path) -> None:
    environment = ENVIRONMENT % (DATASETS % "")
    assert agents_of(folder, environment + AGENT % ("one", "") + AGENT % ("two", "")) == [None]


def test_a_dataset_that_names_its_agent_or_belongs_to_one(folder: Path) -> None:
    named = ENVIRONMENT % (DATASETS % ", agent: two")
    own = AGENT % ("one", DATASETS % "")
    assert agents_of(folder, named + own + AGENT % ("two", "")) == ["two", "one"]
