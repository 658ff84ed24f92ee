"""The datasets that a configuration declares: the agent that runs their rows, and their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nemo_gym.config.datasets import ServerDataset
from nemo_gym.config.types import DatasetConfig, HuggingFaceIdentifier, HuggingFaceSource
from nemo_gym.datasets.hub import Hub
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from nemo_gym.config.loading import GlobalConfig


class DeclaredDataset(NamedTuple):
    declared: ServerDataset
    agent: str | None
    """None if the rows must name it."""


def declared_datasets(config: GlobalConfig) -> Iterator[DeclaredDataset]:
    """Yield every dataset of the configuration, in order."""
    for each in config.datasets:
        if each.dataset.agent is not None:
            yield DeclaredDataset(each, each.dataset.agent)
        elif each.server.kind in ("responses_api_agents", "environment_servers"):
            yield DeclaredDataset(each, each.server.name)
        else:
            yield DeclaredDataset(each, _only_agent_of(each.server.name, config))


def _only_agent_of(resources_server: str, config: GlobalConfig) -> str | None:
    """Return the agent that uses `resources_server`, or None unless there is exactly one."""
    agents = [
        server.name
        for server in config.servers
        if server.kind == "responses_api_agents"
        and _name_in(server.config.get("resources_server")) == resources_server
    ]
    return agents[0] if len(agents) == 1 else None


def _name_in(reference: object) -> object:
    return reference.get("name") if isinstance(reference, Mapping) else None


def available_file(declared: ServerDataset, hub: Hub | None) -> Path:
    """Return the dataset's file, downloaded from `hub` if it does not exist yet.

    Raises `ConfigError`, with the steps to get the file, if it cannot be downloaded.
    """
    if declared.file is not None:
        return declared.file
    dataset = declared.dataset
    source = hub_source(dataset)
    if source is not None and hub is not None:
        return hub.fetch(source.repo_id, source.artifact_fpath, Path(dataset.jsonl_fpath))
    raise ConfigError(
        f"{declared.where}: the file of dataset {dataset.name} does not exist: {dataset.jsonl_fpath}",
        code="dataset_missing",
        remedy=_remedy(dataset, source),
    )


def hub_source(dataset: DatasetConfig) -> HuggingFaceIdentifier | None:
    """Return the dataset's location on the hub, or None."""
    if isinstance(dataset.source, HuggingFaceSource):
        return dataset.source
    return dataset.huggingface_identifier


def _remedy(dataset: DatasetConfig, source: HuggingFaceIdentifier | None) -> str:
    if source is not None:
        return f"Fetch it from {source.repo_id} by +should_download=true."
    if dataset.prepare_script is not None:
        return f"Create it: python {dataset.prepare_script}."
    return "Download it from the GitLab registry in the configuration. This command cannot do so."
