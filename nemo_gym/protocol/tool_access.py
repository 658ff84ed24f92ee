"""Tools that an environment server grants to an agent for one session."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AnyHttpUrl, BaseModel, Field


class _Grant(BaseModel, extra="forbid"):
    name: str = Field(min_length=1)
    required: bool = True
    """If True, an agent that cannot use the tools must refuse the session."""


class DirectHTTPToolAccess(_Grant):
    """Tools that are routes below `base_url`: `POST /<tool>` with a JSON object of arguments."""

    kind: Literal["direct_http"] = "direct_http"
    base_url: AnyHttpUrl
    cookies: dict[str, str] = Field(default_factory=dict)
    """The cookies of the resources server's session."""
    headers: dict[str, str] = Field(default_factory=dict)


class MCPStreamableHTTPConnection(BaseModel, extra="forbid"):
    """An MCP server over streamable HTTP."""

    transport: Literal["streamable_http"] = "streamable_http"
    url: AnyHttpUrl
    headers: dict[str, str] = Field(default_factory=dict)


class MCPToolAccess(_Grant):
    """Tools of an MCP server."""

    kind: Literal["mcp"] = "mcp"
    connection: MCPStreamableHTTPConnection


ToolAccess: TypeAlias = Annotated[DirectHTTPToolAccess | MCPToolAccess, Field(discriminator="kind")]
