"""The datasets that a configuration declares, each with the agent that runs its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from nemo_gym.config.datasets import ServerDataset

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
