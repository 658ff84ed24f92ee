"""The file of a declared dataset, downloaded if necessary."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.config.datasets import ServerDataset
from nemo_gym.config.types import DatasetConfig, HuggingFaceIdentifier, HuggingFaceSource
from nemo_gym.datasets.hub import Hub
from nemo_gym.failures import ConfigError


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
