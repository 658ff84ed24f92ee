"""An agent that calls the model and the requested tools until the model answers without a tool call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from fastapi import HTTPException
from pydantic import ConfigDict, Field

from nemo_gym.agents.policy import Policy, Trajectory
from nemo_gym.agents.tools import ToolClient
from nemo_gym.base_resources_server import BaseRunRequest, BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.base_responses_api_agent import (
    AgentSeedSessionRequest,
    AgentSessionState,
    BaseResponsesAPIAgentConfig,
    SimpleResponsesAPIAgent,
)
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.episodes.driver import Act, Episode
from nemo_gym.rows.verdict import EndReason


class SimpleAgentConfig(BaseResponsesAPIAgentConfig):
    resources_server: ResourcesServerRef
    model_server: ModelServerRef
    max_steps: int | None = Field(default=None, ge=1)
    """The most model calls in one attempt; an attempt that reaches the limit is truncated."""


class SimpleAgentRunRequest(BaseRunRequest):
    model_config = ConfigDict(extra="allow")


class SimpleAgentVerifyRequest(BaseVerifyRequest):
    model_config = ConfigDict(extra="allow")


class SimpleAgentVerifyResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


class SimpleAgent(SimpleResponsesAPIAgent):
    config: SimpleAgentConfig

    async def act(self, episode: Episode) -> Act:
        params = episode.params
        tools = ToolClient(self.server_client, self.config.resources_server.name, params.get("tools"))
        policy = Policy(
            self.server_client,
            self.config.model_server.name,
            Trajectory(params),
            takes_lists=type(self).act is SimpleAgent.act,
        )
        limit_s, turn = episode.agent_timeout_s, policy.take_turn(tools, self.config.max_steps)
        return policy.trajectory.end(await (turn if limit_s is None else _take_within(limit_s, turn)))

    async def _seed_agent_session_state(self, body: AgentSeedSessionRequest) -> AgentSessionState:
        """Accept direct access to tools: those of its resources server, which it calls in the rollout's session."""
        for access in self.effective_tool_accesses(body):
            if access.required and access.kind != "direct_http":
                raise HTTPException(422, f"simple_agent cannot use the tools {access.name} by {access.kind}")
        return AgentSessionState(body)


async def _take_within(seconds: float, turn: Awaitable[EndReason]) -> EndReason:
    """Take a turn, or the part of it that fits into its time."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await turn
    except TimeoutError:
        if not limit.expired():
            raise
        return EndReason.TIMED_OUT


if __name__ == "__main__":
    SimpleAgent.run_webserver()
