"""The agents and model servers that an environment allows: `allowed_agents` and `allowed_model_types` of its block.

Both are lists of implementations. An environment without them works with any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nemo_gym.config.problems import Problems
from nemo_gym.config.servers import ServerInstance
from nemo_gym.json_objects import member


def check_allowed(servers: Iterable[ServerInstance], problems: Problems) -> None:
    """Add a problem for every agent, and every model server of an agent, that its environment does not allow."""
    by_name = {server.name: server for server in servers}
    for agent in by_name.values():
        environment = _find_referred(agent, "resources_server", by_name)
        if agent.kind != "responses_api_agents" or environment is None:
            continue
        _check(agent, agent, environment, "allowed_agents", problems)
        model = _find_referred(agent, "model_server", by_name)
        if model is not None:
            _check(model, agent, environment, "allowed_model_types", problems)


def _find_referred(
    server: ServerInstance, key: str, by_name: Mapping[str, ServerInstance]
) -> ServerInstance | None:
    return by_name.get(str(member(server.config, key, "name")))


def _check(
    used: ServerInstance, agent: ServerInstance, environment: ServerInstance, key: str, problems: Problems
) -> None:
    allowed = environment.config.get(key)
    if isinstance(allowed, list) and allowed and used.implementation not in allowed:
        problems.add(
            agent.where,
            f"{agent.name} uses {used.implementation}, which {environment.name}.{key} does not have.",
            f"Use one of {', '.join(map(str, allowed))}, or remove {key} from {environment.name}.",
        )
