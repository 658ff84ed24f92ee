"""Declared datasets: the agent that runs their rows, and their file, downloaded if necessary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.datasets import ServerDataset
from nemo_gym.datasets.declared import available_file, hub_source, list_declared_datasets
from nemo_gym.failures import ConfigError
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
HUB = ", huggingface_identifier: {repo_id: team/set, artifact_fpath: train.jsonl}"
SOURCE = ", source: {type: huggingface, repo_id: team/set, artifact_fpath: train.jsonl}"
GITLAB = ", gitlab_identifier: {dataset_name: a, version: 0.0.1, artifact_fpath: train.jsonl}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    return write_gym(tmp_path)


def agents_of(folder: Path, text: str) -> list[str | None]:
    return [each.agent for each in list_declared_datasets(load_text(folder, MODEL + text))]


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


class FolderHub:
    """A hub that writes the names it was asked for."""

    def fetch(self, repo_id: str, file: str | None, to: Path, *, revision: str | None = None) -> Path:
        to.write_text(f"{repo_id} {file}")
        return to

    def upload(self, path: Path, repo_id: str, file: str, **options: Any) -> str:
        raise NotImplementedError


def declared(folder: Path, options: str) -> ServerDataset:
    write_gym(folder)
    (folder / "prepare.py").write_text("")
    text = (ENVIRONMENT % (DATASETS % options)).replace("rows.jsonl", str(folder / "rows.jsonl"))
    (each,) = list_declared_datasets(load_text(folder, text))
    return each.declared


@pytest.mark.parametrize("options", [HUB, SOURCE])
def test_a_missing_file_is_downloaded_from_the_hub(options: str, tmp_path: Path) -> None:
    dataset = declared(tmp_path, options)
    assert hub_source(dataset.dataset) is not None
    assert available_file(dataset, FolderHub()).read_text() == "team/set train.jsonl"


def test_a_file_that_exists_is_not_downloaded(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("here")
    assert available_file(declared(tmp_path, HUB), FolderHub()).read_text() == "here"


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (HUB, "Fetch it from team/set by +should_download=true."),
        (", prepare_script: prepare.py", "Create it: python prepare.py."),
        (GITLAB, "Download it from the GitLab registry"),
    ],
)
def test_a_missing_file_is_an_error_with_the_steps_to_get_it(
    options: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"the file of dataset d does not exist") as caught:
        available_file(declared(tmp_path, options), None)
    assert remedy in str(caught.value)
    assert str(caught.value).startswith("main.yaml:")
