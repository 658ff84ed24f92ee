"""The bodies by which an environment server opens, verifies and closes a session of a resources server."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from nemo_gym.protocol.episodes import EpisodeId, TaskId
from nemo_gym.protocol.sandbox_access import SandboxAccess

VerificationInputT = TypeVar("VerificationInputT")


class ResourcesSeedSessionRequest(BaseModel, extra="forbid"):
    """Open the session that the caller names, for one task."""

    resources_session_id: str = Field(min_length=1)
    episode_id: EpisodeId
    task_id: TaskId
    task_data: dict[str, Any] = Field(default_factory=dict)
    """The fields of the task row, except for the input of the policy and the gym's own fields."""


class ResourcesMCPTools(BaseModel):
    """The MCP endpoint of the session."""

    server_name: str
    transport: Literal["http"] = "http"
    url_path: str = "/mcp"
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of every request to it; they name the session."""


class ResourcesSeedSessionResponse(BaseModel):
    resources_session_id: str
    sandbox_access: SandboxAccess | None = None
    """The sandbox of the task, for the agent."""
    resources_tools: ResourcesMCPTools | None = None


class ResourcesVerifyRequest(BaseModel, Generic[VerificationInputT]):
    """Verify an episode whose policy is more than one response."""

    episode_id: EpisodeId
    task_id: TaskId
    verification_input: VerificationInputT


class ResourcesCloseSessionRequest(BaseModel, extra="forbid"):
    """Close a session. A second call has the same answer."""

    resources_session_id: str = Field(min_length=1)
    episode_id: EpisodeId


class ResourcesCloseSessionResponse(BaseModel):
    resources_session_id: str
