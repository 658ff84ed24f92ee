"""The access of an agent to a sandbox that a resources server started."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class DirectSandboxConnection(BaseModel, extra="forbid"):
    """A sandbox that the agent reaches through its own provider of the same configuration."""

    kind: Literal["direct"] = "direct"
    provider_config_ref: str
    """The name of the provider's block in the configuration."""
    descriptor: dict[str, Any] = Field(default_factory=dict)
    """The sandbox, as its provider serializes it."""


class SandboxAccess(BaseModel, extra="forbid"):
    """A connection to a running sandbox, and the folder to work in."""

    connection: DirectSandboxConnection
    workdir: str | None = None
