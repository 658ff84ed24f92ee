"""Attempts at an environment's tasks by a scripted policy: the whole path of a rollout in one call.

The servers, their routes, the episode, the agent and the model server are real; only the policy is scripted. With
`over_http` the servers talk over sockets, with the same rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from nemo_gym.agents.agent import SimpleResponsesAPIAgent
from nemo_gym.config.current import configured
from nemo_gym.json_objects import parse_json
from nemo_gym.mock_engine import (
    EngineOptions,
    MockEngine,
    MockPolicy,
    ModelReply,
    ScriptPolicy,
    ToolCall,
    ToolsPolicy,
)
from nemo_gym.mock_engine.policies import Scene
from nemo_gym.resources.gymnasium import GymnasiumServer
from nemo_gym.resources.server import SimpleResourcesServer
from nemo_gym.rollouts.plan.dataset import locate, read_lines
from nemo_gym.rows.forms import AnyRow
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError

if TYPE_CHECKING:
    from responses_api_models.scripted_model.app import ScriptedModel

Turn: TypeAlias = str | ToolCall | Sequence[ToolCall] | ModelReply
"""One assistant turn: a text, a tool call, several tool calls, or a `ModelReply` with all of them and reasoning."""
Turns: TypeAlias = Sequence[Turn] | MockPolicy
"""One turn after the other, with the last one repeated, or a policy that reads the conversation."""

ENVIRONMENT = "environment"
AGENT = "agent"
POLICY = "policy_model"


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Return a turn that calls the tool `name`."""
    return ToolCall(name, orjson.dumps(arguments).decode())


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """Read the task rows of a JSONL file. A relative path is resolved as in a configuration."""
    return [parse_json(line.content) for line in read_lines(locate(Path(path)))]


def run_environment(
    environment: type[SimpleResourcesServer],
    rows: Iterable[AnyRow],
    turns: Turns | None = None,
    *,
    over_http: bool = False,
    agent: type[SimpleResponsesAPIAgent] | None = None,
    agent_options: Mapping[str, Any] | None = None,
    judges: Mapping[str, Turns] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Return the scored rows of one attempt at each of `rows`, in order.

    Args:
        turns: the policy's turns; by default it calls each declared tool once, with plausible arguments, and then
            quotes the last output.
        agent: by default `simple_agent`, or `gymnasium_agent` for step-style environments.
        agent_options: the agent's configuration without its server references.
        judges: further models and their turns, by the names in the environment's configuration.
        options: the environment's configuration.

    Raises:
        UpstreamError: an attempt failed; the text is the root cause, with its place in the author's code.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    gym = InProcessGym()
    for name, says in {**(judges or {}), POLICY: turns or ToolsPolicy()}.items():
        gym.add(_model_class(_build_policy(says)), name)
    gym.add(environment, ENVIRONMENT, **options)
    references = {
        "resources_server": {"type": "resources_servers", "name": ENVIRONMENT},
        "model_server": {"type": "responses_api_models", "name": POLICY},
    }
    gym.add(agent or _agent_class(environment), AGENT, **references, **(agent_options or {}))

    return _attempt_each(gym, rows, over_http=over_http)


def _attempt_each(gym: InProcessGym, rows: Iterable[AnyRow], *, over_http: bool) -> list[dict[str, Any]]:
    """Return the scored rows. The error of a failed attempt has no frames of servers and clients."""
    __tracebackhide__ = True

    async def attempt() -> list[dict[str, Any]]:
        async with gym.running(over_http=over_http):
            with configured(gym.config):
                return [await gym.run(AGENT, dict(row)) for row in rows]

    try:
        return asyncio.run(attempt())
    except UpstreamError as error:
        raise error.with_traceback(None) from None


def _build_policy(turns: Turns) -> MockPolicy:
    if not isinstance(turns, Sequence):
        return turns
    return ScriptPolicy((Scene(tuple(_build_reply(turn) for turn in turns)),))


def _build_reply(turn: Turn) -> ModelReply:
    if isinstance(turn, ModelReply):
        return turn
    if isinstance(turn, str):
        return ModelReply(text=turn)
    return ModelReply(tool_calls=(turn,) if isinstance(turn, ToolCall) else tuple(turn))


def _model_class(policy: MockPolicy) -> type[ScriptedModel]:
    from responses_api_models.scripted_model.app import ScriptedModel

    class ScriptedTurns(ScriptedModel):
        def new_engine(self) -> MockEngine:
            return MockEngine(EngineOptions(model=self.config.model), policy=policy)

    return ScriptedTurns


def _agent_class(environment: type[SimpleResourcesServer]) -> type[SimpleResponsesAPIAgent]:
    if issubclass(environment, GymnasiumServer):
        from responses_api_agents.gymnasium_agent.app import GymnasiumAgent

        return GymnasiumAgent
    from responses_api_agents.simple_agent.app import SimpleAgent

    return SimpleAgent
