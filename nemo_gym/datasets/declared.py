"""The datasets that a configuration declares: the agent that runs their rows, and their files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nemo_gym.config.datasets import ServerDataset
from nemo_gym.config.types import DatasetConfig, HuggingFaceIdentifier, HuggingFaceSource
from nemo_gym.datasets.hub import Hub
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import member
from nemo_gym.rollouts.plan.dataset import DatasetFile

if TYPE_CHECKING:
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.config.servers import ServerInstance


class DeclaredDataset(NamedTuple):
    declared: ServerDataset
    agent: str | None
    """None if the rows must name it."""


def list_declared_datasets(config: GlobalConfig) -> Iterator[DeclaredDataset]:
    """Yield every dataset of the configuration, in order."""
    for each in config.datasets:
        yield DeclaredDataset(each, each.dataset.agent or _find_agent(each.server, config))


def environment_folder(declared: DeclaredDataset, config: GlobalConfig) -> Path | None:
    """Return the folder of the resources server that verifies the rows of a dataset, or None if there is none."""
    servers = {server.name: server for server in config.servers}
    agent = servers.get(declared.agent or "")
    names = (
        declared.declared.server.name,
        member(agent.config, "resources_server", "name") if agent else None,
    )
    found = (servers[name] for name in names if isinstance(name, str) and name in servers)
    return next((server.directory for server in found if server.kind == "resources_servers"), None)


def _find_agent(server: ServerInstance, config: GlobalConfig) -> str | None:
    """Return a server that runs rows, or the agent that uses a resources server; None unless there is exactly one."""
    if server.kind in ("responses_api_agents", "environment_servers"):
        return server.name
    agents = [
        agent.name
        for agent in config.servers
        if agent.kind == "responses_api_agents"
        and member(agent.config, "resources_server", "name") == server.name
    ]
    return agents[0] if len(agents) == 1 else None


def list_declared_files(
    config: GlobalConfig,
    split: str,
    agent_name: str | None = None,
    num_repeats: int | None = None,
    prompt: Path | None = None,
) -> list[DatasetFile]:
    """Return the files of the declared datasets of the type `split`, of `agent_name` only if that is given.

    `num_repeats` and `prompt` override those of the datasets. Raises `ConfigError` if there is none, or no file.
    """
    declared = list(list_declared_datasets(config))
    of_agent = [(each, agent) for each, agent in declared if agent_name in (None, agent)]
    wanted = [(each, agent) for each, agent in of_agent if each.dataset.type == split]
    if not wanted:
        whose = f" of `{agent_name}`" if agent_name else ""
        raise ConfigError(
            f"no dataset of type {split}{whose} is declared",
            code="no_dataset",
            remedy=_other_choice(agent_name, declared, of_agent),
        )
    return [_build_file(each, agent, num_repeats, prompt) for each, agent in wanted]


def _other_choice(
    agent_name: str | None,
    declared: Sequence[DeclaredDataset],
    of_agent: Sequence[tuple[ServerDataset, str | None]],
) -> str:
    """Return the remedy where an agent has no dataset of a type: the types that it has, else agents with datasets."""
    files = "give files by +input_jsonl_fpath."
    if of_agent:
        types = sorted({each.dataset.type for each, _ in of_agent})
        return f"Write +split={' or '.join(types)}, or {files}"
    agents = sorted({agent for _, agent in declared if agent is not None})
    if agent_name is None or not agents:
        return files.capitalize()
    return f"Datasets are declared for {' and '.join(agents)}. Name one of them, or {files}"


def _build_file(
    each: ServerDataset, agent: str | None, num_repeats: int | None, prompt: Path | None
) -> DatasetFile:
    dataset = each.dataset
    if each.file is None:
        raise ConfigError(
            f"{each.where}: the file of dataset {dataset.name} does not exist",
            code="dataset_missing",
            remedy=f"Its script is {dataset.prepare_script}. Run it by: gym eval prepare"
            if dataset.prepare_script
            else f"Fetch or prepare {dataset.jsonl_fpath}.",
        )
    own = Path(dataset.prompt_config) if dataset.prompt_config else None
    return DatasetFile(each.file, num_repeats or dataset.num_repeats, agent, prompt or own)


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
