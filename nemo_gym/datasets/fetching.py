"""The file of a declared dataset: where it is, or where it can be had."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.config.datasets import ServerDataset
from nemo_gym.config.types import DatasetConfig, HuggingFaceIdentifier, HuggingFaceSource
from nemo_gym.datasets.hub import Hub
from nemo_gym.failures import ConfigError


def available_file(declared: ServerDataset, hub: Hub | None) -> Path:
    """The dataset's file, fetched from `hub` where it is not there yet.

    Raises `ConfigError` that says how it can be had, where that takes somebody to do something.
    """
    if declared.file is not None:
        return declared.file
    dataset = declared.dataset
    source = hub_source(dataset)
    if source is not None and hub is not None:
        return hub.fetch(source.repo_id, source.artifact_fpath, Path(dataset.jsonl_fpath))
    raise ConfigError(
        f"{declared.where}: the file of dataset {dataset.name} is not there: {dataset.jsonl_fpath}",
        code="dataset_missing",
        remedy=_remedy(dataset, source),
    )


def hub_source(dataset: DatasetConfig) -> HuggingFaceIdentifier | None:
    """Where on the hub the dataset says it comes from."""
    if isinstance(dataset.source, HuggingFaceSource):
        return dataset.source
    return dataset.huggingface_identifier


def _remedy(dataset: DatasetConfig, source: HuggingFaceIdentifier | None) -> str:
    if source is not None:
        return f"Fetch it from {source.repo_id} by +should_download=true."
    if dataset.prepare_script is not None:
        return f"Make it: python {dataset.prepare_script}."
    return "Fetch it from the GitLab registry that the configuration names, which this command can't."
