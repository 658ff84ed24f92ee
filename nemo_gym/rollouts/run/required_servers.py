"""The servers that a run needs: the agents of its rows and every server they refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from nemo_gym.config.problems import ConfigErrors, Location, Problem, did_you_mean
from nemo_gym.failures import ConfigError
from nemo_gym.names import SERVER_KINDS
from nemo_gym.rows.compose import AGENT_TYPE
from nemo_gym.transport.directory import server_block

MODEL_TYPE = "responses_api_models"
_PLACES = frozenset({"host", "port", "num_workers", "datasets"})


def require_agents(
    agents: Iterable[str],
    config: Mapping[str, Any],
    find_elsewhere: Callable[[str], str | None] = lambda agent: None,
    places: Mapping[str, Location] = MappingProxyType({}),
) -> None:
    """Raise `ConfigErrors` for all names in `agents` that are not agents of the configuration.

    `find_elsewhere` returns a hint at another gym that has an agent, or None. `places`: the row that names an agent.
    """
    known = {name for name, instance in config.items() if runs_rows(instance)}
    problems = []
    for agent in sorted(set(agents) - known):
        other = next((kind for kind in SERVER_KINDS if is_server(config.get(agent), kind)), None)
        what = f"`{agent}` is one of the {other}, not an agent" if other else f"no agent is named `{agent}`"
        listed = f"The agents are: {', '.join(sorted(known)) or 'none'}."
        problems.append(
            Problem(places.get(agent), what, find_elsewhere(agent) or did_you_mean(agent, known) or listed)
        )
    if problems:
        raise ConfigErrors(problems)


def runs_rows(instance: object) -> bool:
    """Return whether a value of the configuration is a server with `/run`: an agent or an environment server."""
    return is_server(instance, AGENT_TYPE) or is_server(instance, "environment_servers")


def only_agent(config: Mapping[str, Any]) -> str | None:
    """Return the agent of a configuration that has only one, else None."""
    agents = [name for name, instance in config.items() if is_server(instance, AGENT_TYPE)]
    return agents[0] if len(agents) == 1 else None


def list_server_users(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the agents that refer to each server directly, by the server's name."""
    users: dict[str, list[str]] = {}
    for name, instance in config.items():
        if is_server(instance, AGENT_TYPE):
            for server in set(references_in(server_block(instance))):
                users.setdefault(server, []).append(name)
    return users


def find_required_servers(agents: Iterable[str], config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the configuration of `agents` and of all servers they refer to, directly or indirectly, by name."""
    found: dict[str, Mapping[str, Any]] = {}
    pending = list(agents)
    while pending:
        name = pending.pop()
        instance = config.get(name)
        if name in found or not isinstance(instance, Mapping):
            continue
        found[name] = instance
        pending += references_in(server_block(instance))
    return found


def name_environment(agent: str, config: Mapping[str, Any]) -> str:
    """Return the environment that an agent attempts: the resources server that it names, or else itself."""
    named = (server_block(config.get(agent)) or {}).get("resources_server")
    name = named.get("name") if isinstance(named, Mapping) else None
    return name if isinstance(name, str) else agent


def name_with_model(agent: str, config: Mapping[str, Any]) -> str:
    """Return the agent's name, followed by that of its model if the agent itself asks one only."""
    servers = [config.get(name) for name in references_in(server_block(config.get(agent)))]
    blocks = [server_block(instance) or {} for instance in servers if is_server(instance, MODEL_TYPE)]
    models = {str(block["model"]) for block in blocks if block.get("model")}
    return f"{agent} ({models.pop()})" if len(models) == 1 else agent


def refuse_same_agents(one: str, other: str, config: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if two agents have the same model server and configuration, so that only chance differs."""
    same, copy = (_drop_places(config.get(agent)) for agent in (one, other))
    models = [name for name in config if is_server(config[name], MODEL_TYPE)]
    shared = ", ".join(f"`{name}`" for name in models if name in {*references_in(same)})
    if not shared or same != copy:
        return
    used = {name for instance in config.values() for name in references_in(server_block(instance))}
    unused = ", ".join(f"`{name}`" for name in models if name not in used)
    raise ConfigError(
        f"+until: {one} and {other} are the same agent under two names: both use {shared}, and nothing else of their "
        "configuration differs",
        code="until",
        remedy=f"Give {other} the model server that it is about (docs/how_many_rollouts.md)."
        + (f" No server uses {unused}." if unused else ""),
    )


def _drop_places(instance: object) -> Any:
    """Return the configuration of an agent without the keys that say where it runs, and on what rows."""
    if isinstance(instance, Mapping):
        kept = (key for key in instance if key not in _PLACES and not str(key).startswith("_"))
        return {key: _drop_places(instance[key]) for key in kept}
    return instance


def references_in(value: Any) -> Iterator[str]:
    """Yield the names of servers that a block refers to, at any depth: `{type: <kind>, name: <instance>}`."""
    if isinstance(value, Mapping):
        if value.get("type") in SERVER_KINDS and isinstance(value.get("name"), str):
            yield value["name"]
        for inner in value.values():
            yield from references_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from references_in(inner)


def is_server(instance: object, kind: str) -> bool:
    """Return whether a value of the configuration is a server instance of that kind."""
    return isinstance(instance, Mapping) and isinstance(instance.get(kind), Mapping)
