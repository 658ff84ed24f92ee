"""Sessions of agents: opened once, closed once, and never lost when an answer is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi import HTTPException, Request
from fastapi.testclient import TestClient
from pydantic import PrivateAttr

from nemo_gym.base_responses_api_agent import (
    AgentCloseSessionResponse,
    AgentSeedSessionRequest,
    AgentSessionSetupError,
    AgentSessionState,
    SimpleResponsesAPIAgent,
)
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.rollout_observability import AgentObservationBundle
from nemo_gym.tool_access import DirectHTTPToolAccess, MCPToolAccess

EPISODE = {"rollout_id": "3-0", "attempt": 0}
SEED: dict[str, Any] = {
    "agent_session_id": "mine",
    "episode_id": EPISODE,
    "task_id": {"taskset": "s", "task_id": "t"},
    "tool_accesses": [{"kind": "direct_http", "name": "tools", "base_url": "http://tools"}],
}
CLOSE = {"agent_session_id": "mine", "episode_id": EPISODE}


@dataclass
class Desk(AgentSessionState):
    tools: list[str]
    turns: int = 0


class Clerk(SimpleResponsesAPIAgent):
    _closed: list[str] = PrivateAttr(default_factory=list)
    _problem: Exception | None = PrivateAttr(default=None)

    async def _seed_agent_session_state(self, body: AgentSeedSessionRequest) -> Desk:
        accesses = self.effective_tool_accesses(body)
        if any(isinstance(access, MCPToolAccess) and access.required for access in accesses):
            raise HTTPException(422, "this agent has no MCP client")
        desk = Desk(body, [access.name for access in accesses if isinstance(access, DirectHTTPToolAccess)])
        if self._problem is not None:
            raise AgentSessionSetupError(desk, error=self._problem)
        return desk

    async def _close_agent_session_state(self, state: AgentSessionState) -> AgentCloseSessionResponse:
        assert isinstance(state, Desk)
        await asyncio.sleep(0)
        self._closed.append(state.request.agent_session_id)
        observations = AgentObservationBundle.model_validate({"source": f"clerk after {state.turns}"})
        return AgentCloseSessionResponse(
            agent_session_id=state.request.agent_session_id,
            agent_observations=observations,
            resources_cookies={"tools": ",".join(state.tools)},
        )

    async def responses(self, request: Request) -> NeMoGymResponse:  # type: ignore[override]
        session = self._agent_session_id_from_request(request)
        assert session is not None
        desk = self._require_agent_session(session)
        assert isinstance(desk, Desk)
        desk.turns += 1
        content = {
            "id": f"turn {desk.turns}",
            "created_at": 0,
            "model": "m",
            "object": "response",
            "output": [],
        }
        return NeMoGymResponse.model_validate(
            {**content, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        )


@pytest.fixture
def clerk() -> Clerk:
    clerk = Clerk.standalone()
    assert isinstance(clerk, Clerk)
    return clerk


@pytest.fixture
def client(clerk: Clerk) -> Iterator[TestClient]:
    with TestClient(clerk.setup_webserver()) as client:
        yield client


def test_a_session_lasts_from_seed_to_close(clerk: Clerk, client: TestClient) -> None:
    seeded, again = (client.post("/v1/agent_sessions", json=SEED) for _ in range(2))
    assert seeded.json() == again.json() == {"agent_session_id": "mine"}
    turns = [client.post("/ng-rollout/3-0/v1/responses", json={"input": "x"}).json()["id"] for _ in range(2)]
    assert turns == ["turn 1", "turn 2"]
    closed, again = (client.post("/v1/agent_sessions/close", json=CLOSE) for _ in range(2))
    assert closed.json() == again.json()
    assert closed.json()["agent_observations"]["source"] == "clerk after 2"
    assert closed.json()["resources_cookies"] == {"tools": "tools"}
    assert clerk._closed == ["mine"]
    assert client.post("/v1/responses", json={"input": "x"}).status_code == 409
    assert client.post("/v1/agent_sessions", json=SEED).status_code == 409


def test_a_session_whose_seed_was_never_answered_can_be_closed(clerk: Clerk, client: TestClient) -> None:
    assert client.post("/v1/agent_sessions/close", json=CLOSE).json()["agent_session_id"] == "mine"
    assert client.post("/v1/agent_sessions", json=SEED).status_code == 409
    assert clerk._closed == []


def test_what_a_failed_setup_left_behind_is_closed(clerk: Clerk, client: TestClient) -> None:
    clerk._problem = HTTPException(502, "the sandbox is gone")
    assert client.post("/v1/agent_sessions", json=SEED).status_code == 502
    assert client.post("/v1/agent_sessions/close", json=CLOSE).status_code == 200
    assert clerk._closed == ["mine"]


def test_a_refused_session_leaves_nothing_behind(clerk: Clerk, client: TestClient) -> None:
    mcp = {"kind": "mcp", "name": "m", "connection": {"url": "http://tools/mcp"}}
    assert client.post("/v1/agent_sessions", json=SEED | {"tool_accesses": [mcp]}).status_code == 422
    assert client.post("/v1/agent_sessions", json=SEED).status_code == 200
    assert clerk._closed == []


@pytest.mark.parametrize("path", ["/v1/agent_sessions", "/v1/agent_sessions/close"])
def test_another_episode_cannot_use_the_session(client: TestClient, path: str) -> None:
    client.post("/v1/agent_sessions", json=SEED)
    other = (SEED if path == "/v1/agent_sessions" else CLOSE) | {"episode_id": {"rollout_id": "9-0"}}
    assert client.post(path, json=other).status_code == 409


async def test_two_closes_at_once_close_once(clerk: Clerk, client: TestClient) -> None:
    client.post("/v1/agent_sessions", json=SEED)
    body = AgentSeedSessionRequest.model_validate(SEED)
    from nemo_gym.base_responses_api_agent import AgentCloseSessionRequest

    close = AgentCloseSessionRequest(agent_session_id="mine", episode_id=body.episode_id)
    request = Request({"type": "http", "session": {}})
    first, second = await asyncio.gather(*(clerk.close_agent_session(request, close) for _ in range(2)))
    assert first is second
    assert clerk._closed == ["mine"]


async def test_sessions_that_are_open_when_the_agent_stops_are_closed(clerk: Clerk) -> None:
    request = Request({"type": "http", "session": {}})
    async with clerk.alive():
        await clerk.seed_agent_session(request, AgentSeedSessionRequest.model_validate(SEED))
    assert clerk._closed == ["mine"]


def test_tools_of_the_agents_own_configuration_are_added_unless_the_grant_replaces_them() -> None:
    own = [
        {"kind": "direct_http", "name": name, "base_url": f"http://own/{name}"}
        for name in ("tools", "search")
    ]
    clerk = Clerk.standalone(tool_accesses=own)
    assert isinstance(clerk, Clerk)
    accesses = clerk.effective_tool_accesses(AgentSeedSessionRequest.model_validate(SEED))
    assert [access.name for access in accesses] == ["tools", "search"]
    assert isinstance(accesses[0], DirectHTTPToolAccess)
    assert str(accesses[0].base_url) == "http://tools/"


def test_an_agent_without_sessions_says_so() -> None:
    class Plain(SimpleResponsesAPIAgent):
        async def responses(self, request: Request) -> NeMoGymResponse:  # type: ignore[override]
            raise NotImplementedError

    with TestClient(Plain.standalone().setup_webserver()) as client:
        answer = client.post("/v1/agent_sessions", json=SEED)
    assert answer.status_code == 501
    assert "/run" in answer.text
