"""The bodies by which an environment server opens and closes a session of an agent."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, Field

from nemo_gym.protocol.episodes import EpisodeId, TaskId
from nemo_gym.protocol.observations import AgentObservationBundle
from nemo_gym.protocol.sandbox_access import SandboxAccess
from nemo_gym.protocol.tool_access import ToolAccess


class AgentSeedSessionRequest(BaseModel, extra="forbid"):
    """Open the session that the caller names, with the tools and the sandbox that the agent may use."""

    agent_session_id: str = Field(min_length=1)
    episode_id: EpisodeId
    task_id: TaskId
    tool_accesses: list[ToolAccess] = Field(default_factory=list)
    sandbox_access: SandboxAccess | None = None


class AgentSeedSessionResponse(BaseModel):
    agent_session_id: str


class AgentCloseSessionRequest(BaseModel, extra="forbid"):
    """Close a session. A second call has the same answer."""

    agent_session_id: str = Field(min_length=1)
    episode_id: EpisodeId


class AgentCloseSessionResponse(BaseModel):
    agent_session_id: str
    agent_observations: AgentObservationBundle | None = None
    resources_cookies: dict[str, str] | None = None
    """The cookies of the resources server after the agent's last tool call."""


@dataclass
class AgentSessionState:
    """The state of an open session. Agents subclass it."""

    request: AgentSeedSessionRequest


class AgentSessionSetupError(Exception):
    """Opening a session failed after a part of its state existed, which the base class must close."""

    def __init__(self, state: AgentSessionState, *, error: BaseException) -> None:
        super().__init__(str(error))
        self.state = state
        self.error = error
