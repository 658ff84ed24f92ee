"""The check that environments can serve the tools that their rows declare.

Our agents with tools call each tool as a route of its resources server. A row whose tool has no route would fail only
when the model calls it. An environment without any tool may judge the calls themselves: it is refused if it has a
method with the name of the tool, so that a route was forgotten, and else there is a warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_gym.config.problems import Location, Problem, did_you_mean
from nemo_gym.failures import GymError
from nemo_gym.json_objects import member, object_in
from nemo_gym.names import POSTED_ROUTE
from nemo_gym.rows.compose import AGENT_TYPE
from nemo_gym.transport import Caller
from nemo_gym.transport.control import is_control_route
from nemo_gym.transport.directory import server_block

log = logging.getLogger(__name__)

CALLING_AGENTS = ("simple_agent", "user_simulation_agent")
STEPS = "/step"
"""The route of environments that take tool calls under any name."""

DeclaredTools = Mapping[tuple[str, str], Location]
"""The first row that declares each tool, by agent and name."""


@dataclass(frozen=True, slots=True)
class ServedTools:
    """The tools of an environment."""

    names: frozenset[str] = frozenset()
    methods: Mapping[str, str] = field(default_factory=dict)
    """The places of the author's methods without a route, by name."""
    is_known: bool = True
    """False if it serves tools of any name, or does not list its routes."""


async def tool_problems(
    caller: Caller, tools: DeclaredTools, servers: Mapping[str, Mapping[str, Any]], seconds: float
) -> list[Problem]:
    """Return a problem for every declared tool that its environment does not serve.

    `servers` is the configuration of the agents and the servers that they refer to, by name.
    """
    environments: dict[str, str] = {}
    for agent, _ in tools:
        name = find_environment(servers.get(agent))
        if name is not None and not member(server_block(servers.get(name)), "expose_tools_over_mcp"):
            environments[agent] = name
    names = sorted(set(environments.values()))
    listed = await asyncio.gather(*(_fetch_tools(caller, name, seconds) for name in names))
    served = dict(zip(names, listed, strict=True))
    found = []
    for (agent, tool), where in sorted(tools.items(), key=lambda item: item[0]):
        environment = environments.get(agent)
        if environment is not None and (problem := _problem(tool, where, environment, served[environment])):
            found.append(problem)
    return found


def find_environment(agent: Mapping[str, Any] | None) -> str | None:
    """Return the resources server that an agent calls for its tools; None for an agent that calls none."""
    for kind in CALLING_AGENTS:
        name = member(agent, AGENT_TYPE, kind, "resources_server", "name")
        if isinstance(name, str):
            return name
    return None


def _problem(tool: str, where: Location, environment: str, served: ServedTools) -> Problem | None:
    if not served.is_known or tool in served.names:
        return None
    if tool in served.methods:
        return Problem(
            where,
            f"`{environment}` has the method `{tool}` ({served.methods[tool]}), and no route POST /{tool} for it.",
            f'Add app.post("/{tool}")(self.{tool}) to its setup_webserver.',
        )
    if not served.names:
        log.warning(
            "%s: `%s` serves no tool, so every call of %r will fail; it may judge the calls themselves",
            where,
            environment,
            tool,
        )
        return None
    listed = f"Its tools are {', '.join(sorted(served.names))}."
    return Problem(
        where,
        f"`{environment}` does not serve the tool {tool!r}.",
        did_you_mean(tool, served.names) or listed,
    )


async def _fetch_tools(caller: Caller, server: str, seconds: float) -> ServedTools:
    """Return the tools of a server."""
    try:
        reply = await caller.get(server, POSTED_ROUTE, seconds)
    except GymError:
        return ServedTools(is_known=False)  # the server's own check reports what is wrong with it
    listed = object_in(reply.body) if reply.ok else None
    if listed is None:
        return ServedTools(is_known=False)
    posted = [path for path in listed.get("paths", ()) if not is_control_route(path)]
    serves_any = any("{" in path or path == STEPS for path in posted)
    names = frozenset(path.strip("/") for path in posted)
    return ServedTools(names, listed.get("methods") or {}, is_known=not serves_any)
