"""The check that environments can serve the tools that their rows declare.

`simple_agent` calls each tool as a route of its resources server. A row whose tool has no route would fail only when
the model calls it. Environments that serve no tool at all judge the calls themselves, and are not checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from nemo_gym.config.problems import Location, Problem, did_you_mean
from nemo_gym.failures import GymError
from nemo_gym.json_objects import member, object_in
from nemo_gym.names import POSTED_ROUTE
from nemo_gym.rows.compose import AGENT_TYPE
from nemo_gym.transport import Caller
from nemo_gym.transport.control import is_control_route
from nemo_gym.transport.directory import server_block

CALLING_AGENT = "simple_agent"
STEPS = "/step"
"""The route of environments that take tool calls under any name."""

DeclaredTools = Mapping[tuple[str, str], Location]
"""The first row that declares each tool, by agent and name."""


async def tool_problems(
    caller: Caller, tools: DeclaredTools, servers: Mapping[str, Mapping[str, Any]], seconds: float
) -> list[Problem]:
    """Return a problem for every declared tool that its environment does not serve.

    `servers` is the configuration of the agents and the servers that they refer to, by name.
    """
    environments: dict[str, str] = {}
    for agent, _ in tools:
        name = member(servers.get(agent), AGENT_TYPE, CALLING_AGENT, "resources_server", "name")
        if name is not None and not member(server_block(servers.get(name)), "expose_tools_over_mcp"):
            environments[agent] = name
    names = sorted(set(environments.values()))
    routes = dict(
        zip(names, await asyncio.gather(*(_tools_of(caller, name, seconds) for name in names)), strict=True)
    )
    return [
        _problem(tool, where, environments[agent], served)
        for (agent, tool), where in sorted(tools.items(), key=lambda item: item[0])
        if agent in environments and (served := routes[environments[agent]]) and tool not in served
    ]


def _problem(tool: str, where: Location, environment: str, served: Iterable[str]) -> Problem:
    listed = f"Its tools are {', '.join(sorted(served))}."
    return Problem(
        where, f"`{environment}` does not serve the tool {tool!r}.", did_you_mean(tool, served) or listed
    )


async def _tools_of(caller: Caller, server: str, seconds: float) -> set[str]:
    """Return the tools of a server; none if it serves none, any, or does not list its routes."""
    try:
        reply = await caller.get(server, POSTED_ROUTE, seconds)
    except GymError:
        return set()  # the server's own check reports what is wrong with it
    listed = object_in(reply.body) if reply.ok else None
    posted = [path for path in (listed or {}).get("paths", ()) if not is_control_route(path)]
    serves_any = any("{" in path or path == STEPS for path in posted)
    return set() if serves_any else {path.strip("/") for path in posted}
