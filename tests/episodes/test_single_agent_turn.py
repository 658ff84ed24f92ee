"""One agent turn driven by an environment server: its row and answer, its grants, and both sessions on every path."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import HTTPException, Request
from pydantic import Field

from environment_servers.single_agent_turn.app import SingleAgentTurnEnvironmentServer
from environment_servers.single_agent_turn_legacy.app import SingleAgentTurnLegacyEnvironmentServer
from nemo_gym.agents.sessions import AgentSessions
from nemo_gym.base_resources_server import (
    ResourcesCloseSessionRequest,
    ResourcesCloseSessionResponse,
    ResourcesSeedSessionRequest,
    ResourcesSeedSessionResponse,
)
from nemo_gym.base_responses_api_agent import (
    AgentCloseSessionResponse,
    AgentSeedSessionRequest,
    AgentSessionState,
)
from nemo_gym.server_utils import SESSION_ID_KEY
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import CounterEnvironment, ScriptedModel, call, task_row, text

TURNS = [[call("add", '{"amount": 2}')], [text("two")]]


class NamedCounter(CounterEnvironment):
    """Counts in sessions that environment servers name."""

    opened: list[ResourcesSeedSessionRequest] = Field(default_factory=list)
    closed_names: list[str] = Field(default_factory=list)

    async def seed_session(  # type: ignore[override]
        self, request: Request, body: ResourcesSeedSessionRequest
    ) -> ResourcesSeedSessionResponse:
        self.opened.append(body)
        self.counts[request.session[SESSION_ID_KEY]] = 0
        if body.task_data.get("broken"):
            raise HTTPException(422, "no such room")
        tools = {"server_name": "counter", "headers": {"session": body.resources_session_id}}
        return ResourcesSeedSessionResponse.model_validate(
            {"resources_session_id": body.resources_session_id, "resources_tools": tools}
        )

    async def close_resources_session(
        self, body: ResourcesCloseSessionRequest
    ) -> ResourcesCloseSessionResponse:
        self.closed_names.append(body.resources_session_id)
        return ResourcesCloseSessionResponse(resources_session_id=body.resources_session_id)


class SessionAgent(SimpleAgent):
    """Notes its sessions."""

    seeds: list[AgentSeedSessionRequest] = Field(default_factory=list)
    ended: list[str] = Field(default_factory=list)

    async def _seed_agent_session_state(self, body: AgentSeedSessionRequest) -> AgentSessionState:
        self.seeds.append(body)
        return AgentSessionState(body)

    async def _close_agent_session_state(self, state: AgentSessionState) -> AgentCloseSessionResponse:
        self.ended.append(state.request.agent_session_id)
        return AgentCloseSessionResponse(agent_session_id=state.request.agent_session_id)


class Gym(InProcessGym):
    def __init__(
        self,
        turns: list[Any],
        *,
        environment: type[CounterEnvironment] = NamedCounter,
        agent: type[AgentSessions] = SessionAgent,
        **options: Any,
    ) -> None:
        super().__init__()
        self.environment: Any = self.add(environment, "env")
        model = self.add(ScriptedModel, "policy_model")
        assert isinstance(model, ScriptedModel)
        self.model, model.turns = model, turns
        resources = {"type": "resources_servers", "name": "env"}
        policy = {"type": "responses_api_models", "name": "policy_model"}
        self.agent: Any = self.add(agent, "agent", resources_server=resources, model_server=policy)  # type: ignore[arg-type]
        references = {
            "resources_server": resources,
            "agent_server": {"type": "responses_api_agents", "name": "agent"},
        }
        self.add(SingleAgentTurnEnvironmentServer, "turn", **references, **options)
        self.add(SingleAgentTurnLegacyEnvironmentServer, "legacy", **references, **options)

    def assert_all_is_closed_once(self) -> None:
        assert self.environment.closed_names == [self.environment.opened[0].resources_session_id]
        assert len(self.environment.closed) == 1
        assert len(self.environment.middleware.access.sessions) == 0
        assert len(self.agent.seeds) == len(self.agent.ended) == 1


def episode(**task_data: Any) -> dict[str, Any]:
    params = task_row()["responses_create_params"]
    return {
        "episode_id": {"rollout_id": "3-0", "attempt": 1},
        "task": {
            "task_id": {"taskset": "s", "task_id": "t"},
            "task_input": {"responses_create_params": params, "task_data": task_data},
        },
    }


async def test_an_episode_is_verified_and_both_sessions_are_closed_once() -> None:
    gym = Gym(TURNS)
    answer = await gym.run("turn", episode(question="?"))
    assert answer["failure"] is None
    assert answer["result"]["reward"] == 2.0
    assert answer["task_id"] == {"taskset": "s", "task_id": "t"}
    assert gym.environment.opened[0].task_data == {"question": "?"}
    gym.assert_all_is_closed_once()


async def test_a_task_row_becomes_a_scored_row() -> None:
    gym = Gym(TURNS)
    row = await gym.run("legacy", {**task_row(), "_ng_task_index": 4, "_ng_rollout_index": 1})
    assert (row["reward"], row["uuid"], row["_ng_task_index"]) == (2.0, "row-1", 4)
    assert row["_ng_outcome"] == "completed"
    assert gym.environment.opened[0].episode_id.rollout_id == "4-1"
    gym.assert_all_is_closed_once()


async def test_failed_tool_calls_are_in_the_row_of_an_environment_server() -> None:
    crash = {"type": "function", "name": "crash", "parameters": {}}
    params = task_row()["responses_create_params"]
    row = {**task_row(), "responses_create_params": {**params, "tools": [crash]}}
    gym = Gym([[call("crash", "{}")], [text("oh")]])
    scored = await gym.run("legacy", row)
    (error,) = scored["_ng_tool_errors"]
    assert (error["tool"], error["by"], error["count"]) == ("crash", "environment", 1)
    assert error["cause"] == "RuntimeError: a bug in the tool"
    assert "_ng_tool_errors" not in await Gym(TURNS).run("legacy", task_row())


async def test_an_environment_of_the_older_protocol_needs_no_change() -> None:
    gym = Gym(TURNS, environment=CounterEnvironment, agent=SimpleAgent)
    assert (await gym.run("legacy", task_row()))["reward"] == 2.0
    assert len(gym.environment.closed) == 1


async def test_the_agent_is_granted_the_configured_transports() -> None:
    gym = Gym(TURNS, resources_tool_transports=["direct_http", "mcp"])
    await gym.run("turn", episode())
    direct, mcp = gym.agent.seeds[0].tool_accesses
    assert (direct.kind, direct.name, bool(direct.cookies)) == ("direct_http", "env", True)
    assert mcp.name == "counter"
    assert str(mcp.connection.url).endswith("/mcp")
    assert mcp.connection.headers == {"session": gym.environment.opened[0].resources_session_id}


async def test_a_failed_turn_is_a_failure_and_closes_both_sessions() -> None:
    gym = Gym([])  # the model raises
    answer = await gym.run("turn", episode())
    assert answer["result"] is None
    assert answer["failure"]["failure_reason"]
    gym.assert_all_is_closed_once()


async def test_a_failed_opening_is_closed_and_asks_no_agent() -> None:
    gym = Gym(TURNS)
    answer = await gym.run("turn", episode(broken=True))
    assert "no such room" in answer["failure"]["failure_reason"]
    assert gym.environment.closed_names == ["3-0-a1-resources"]
    assert gym.agent.seeds == []


async def test_an_agent_that_cannot_use_the_grant_refuses_before_any_model_call() -> None:
    gym = Gym(TURNS, agent=SimpleAgent, resources_tool_transports=["mcp"])
    answer = await gym.run("turn", episode())
    assert "cannot use the tools counter by mcp" in answer["failure"]["failure_reason"]
    assert gym.model.requests == []
    assert len(gym.environment.closed_names) == 1


async def test_a_failure_of_a_row_is_an_error_answer_without_a_reward() -> None:
    gym = Gym(TURNS, environment=CounterEnvironment)
    gym.environment.verify_error = "the judge is out of order"
    with pytest.raises(UpstreamError, match="the judge is out of order") as caught:
        await gym.run("legacy", task_row())
    assert b'"reward"' not in caught.value.response_content
    assert len(gym.environment.closed) == 1
