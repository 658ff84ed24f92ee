"""Checks before the first rollout that agents and engines are reachable, and that tools are served.

All servers are checked concurrently, within five seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from nemo_gym.config.problems import ConfigErrors, Location, Problem, did_you_mean
from nemo_gym.failures import DeadlineError, EngineError, Failure, GymError, TransportError
from nemo_gym.json_objects import member, object_in
from nemo_gym.names import POSTED_ROUTE
from nemo_gym.rollouts.run.required_servers import MODEL_TYPE, is_server
from nemo_gym.rows.compose import AGENT_TYPE
from nemo_gym.transport import Caller, RetryBudget, read_reply_failure
from nemo_gym.transport.control import is_control_route
from nemo_gym.transport.directory import server_block

log = logging.getLogger(__name__)

PREFLIGHT_S = 5.0
NO_SUCH_ROUTE = frozenset({404, 405})
_ONE_TRY = RetryBudget(attempts=1)
EnginesFound = dict[str, Mapping[str, Any]]
"""The facts of the engines behind model servers, by the server's name. Those without facts are left out."""


async def check_servers(
    caller: Caller,
    agents: Collection[str],
    servers: Mapping[str, Mapping[str, Any]],
    *,
    tools: DeclaredTools = MappingProxyType({}),
    seconds: float = PREFLIGHT_S,
) -> EnginesFound:
    """Return what the engines behind model `servers` tell of themselves.

    Raises `ConfigErrors` with all problems of agents, of these engines, and of declared `tools`.
    """
    asking, engines = _asking_once(caller), EnginesFound()
    unserved = await tool_problems(asking, tools, servers, seconds)
    without_tools = sorted({*agents} - {agent for agent, _ in tools})
    await asyncio.gather(*(_warn_of_unused_tools(asking, agent, servers, seconds) for agent in without_tools))
    failures = await asyncio.gather(
        *(_agent_problem(asking, agent, seconds) for agent in sorted(set(agents))),
        *_model_problems(asking, servers, seconds, engines),
    )
    found = [Problem(None, failure.message, failure.remedy) for failure in failures if failure is not None]
    if found or unserved:
        raise ConfigErrors([*unserved, *found])
    return engines


async def read_engines(
    caller: Caller, servers: Mapping[str, Mapping[str, Any]], seconds: float = PREFLIGHT_S
) -> EnginesFound:
    """Return what the engines behind model `servers` tell of themselves, without those that have a problem."""
    engines = EnginesFound()
    await asyncio.gather(*_model_problems(_asking_once(caller), servers, seconds, engines))
    return engines


def _asking_once(caller: Caller) -> Caller:
    return Caller(caller.directory, caller.transport, budget=_ONE_TRY, token=caller.token)


def _model_problems(
    caller: Caller, servers: Mapping[str, Mapping[str, Any]], seconds: float, engines: EnginesFound
) -> Iterator[Coroutine[Any, Any, Failure | None]]:
    """Yield the checks of the model `servers`."""
    models = {name: server for name, server in servers.items() if is_server(server, MODEL_TYPE)}
    return (_model_problem(caller, name, server, seconds, engines) for name, server in sorted(models.items()))


async def _agent_problem(caller: Caller, agent: str, seconds: float) -> Failure | None:
    """Return why the agent is unreachable. A timeout is not a problem: the agent may be busy with another run."""
    try:
        await caller.get(agent, "/", seconds)
    except DeadlineError:
        return None
    except TransportError as error:
        return _does_not_answer(agent, error)
    return None


async def _model_problem(
    caller: Caller, model: str, server: Mapping[str, Any], seconds: float, engines: EnginesFound
) -> Failure | None:
    """Return the engine failure that a model server reports; a server without the route is assumed healthy.

    The facts of a healthy engine are added to `engines`.
    """
    try:
        reply = await caller.get(model, "/preflight", seconds)
    except DeadlineError:
        engine = ", ".join(_engine_urls(server)) or "its engine"
        return EngineError(
            f"{engine} did not answer model server `{model}` within {seconds:g} s",
            code="engine_silent",
            remedy="Check that the engine runs and that the URL is right.",
            peer=model,
        ).failure
    except TransportError as error:
        return _does_not_answer(model, error)
    except GymError as error:
        return error.failure
    facts = member(object_in(reply.body), "engine") if reply.ok else None
    if isinstance(facts, Mapping) and facts:
        engines[model] = facts
    return None if reply.ok or reply.status in NO_SUCH_ROUTE else read_reply_failure(reply)


def _engine_urls(server: Mapping[str, Any]) -> list[str]:
    """Return the engine URLs in a model server's configuration."""
    block = server_block(server) or {}
    values = [value for key, value in block.items() if str(key).endswith("base_url")]
    return [str(url) for value in values for url in (value if isinstance(value, list) else [value])]


def _does_not_answer(server: str, error: TransportError) -> Failure:
    return TransportError(
        f"server `{server}` does not answer: {error.failure.message}",
        code=error.failure.code,
        remedy="Start the servers with gym env start (ng_run), or wait until it reports that they are ready.",
        peer=error.failure.peer,
    ).failure


# --- Declared tools ---------------------------------------------------------------------------------------------------
# Our agents with tools call each tool as a route of its resources server. A row whose tool has no route would fail
# only when the model calls it. An environment without any tool may judge the calls themselves: it is refused if it
# has a method with the name of the tool, so that a route was forgotten, and else there is a warning.


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


async def _warn_of_unused_tools(
    caller: Caller, agent: str, servers: Mapping[str, Mapping[str, Any]], seconds: float
) -> None:
    """Warn if no model gets the tools of an environment: no row of its `agent` declares one."""
    environment = find_environment(servers.get(agent))
    if environment is None or member(server_block(servers.get(environment)), "expose_tools_over_mcp"):
        return
    served = await _fetch_tools(caller, environment, seconds)
    if served.is_known and served.names:
        log.warning(
            "no row of `%s` has `responses_create_params.tools`, so the model gets none of the tools of `%s`: %s",
            agent,
            environment,
            ", ".join(sorted(served.names)),
        )


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
