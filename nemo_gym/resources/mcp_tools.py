"""The tools that a resources server offers over MCP, made of its `POST` routes.

An author changes the list by overriding `mcp_tools(harvested, catchall)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import fastapi
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from nemo_gym.failures import ConfigError
from nemo_gym.names import MCP_TOOL_PREFIX
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params
from nemo_gym.serving.session_access import EXCLUSIVE_ROUTES
from nemo_gym.transport.control import is_control_route

ANY_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
MCP_PATH = "/mcp"
GYM_PATHS = EXCLUSIVE_ROUTES | {"/step", "/reverify_mode", MCP_PATH}
"""The gym's own routes of a resources server, beside the control routes."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PARAMETER = re.compile(r"\{[^}]+\}")


@dataclass(frozen=True)
class MCPTool:
    """A tool of the list, and the path of the route that runs it."""

    name: str
    path: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=lambda: ANY_ARGUMENTS)

    def describe_as(self, declared: Mapping[str, Any]) -> MCPTool:
        """Return the tool with the description and the parameters of a task row, where it states them."""
        description, schema = declared.get("description"), declared.get("parameters")
        return replace(
            self,
            description=description if isinstance(description, str) else self.description,
            input_schema=schema if isinstance(schema, Mapping) else self.input_schema,
        )

    def to_wire(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "inputSchema": dict(self.input_schema)}


def read_declared_tools(row: AnyRow) -> dict[str, Mapping[str, Any]]:
    """Return the functions that a task row declares, by name."""
    tools = read_params(row).get("tools")
    return {
        str(tool.get("name")): tool
        for tool in (tools if isinstance(tools, list) else ())
        if isinstance(tool, Mapping) and tool.get("type", "function") == "function"
    }


@dataclass(frozen=True)
class CatchAllRoute:
    """The one route whose path is a parameter, such as `POST /{tool}`."""

    path: str

    def tool(
        self, name: str, input_schema: Mapping[str, Any] | None = None, description: str | None = None
    ) -> MCPTool:
        """Return a tool that the route runs under `name`."""
        path = _PARAMETER.sub(name, self.path)
        return MCPTool(name, path, description or "", input_schema or ANY_ARGUMENTS)


def harvest_tools(app: FastAPI, taken: Iterable[str]) -> tuple[list[MCPTool], CatchAllRoute | None]:
    """Return a tool for every `POST` route of the author, and the route with a parameter if there is exactly one.

    `taken` are the paths of the gym's own routes. The arguments of a tool are the fields of the route's body model.
    """
    own = [
        route
        for route in post_routes(app)
        if route.path not in set(taken) and not is_control_route(route.path)
    ]
    fixed = [route for route in own if "{" not in route.path]
    open_ended = [route for route in own if len(_PARAMETER.findall(route.path)) == 1]
    tools = [
        MCPTool(route.path.strip("/"), route.path, _description(route), _schema(route)) for route in fixed
    ]
    return tools, CatchAllRoute(open_ended[0].path) if len(open_ended) == 1 else None


def is_tool_path(path: str) -> bool:
    """Return whether a path is no route of the gym, so that it can be a tool's."""
    return path not in GYM_PATHS and not is_control_route(path)


def post_routes(app: FastAPI) -> list[APIRoute]:
    """Return the `POST` routes of an app, those of included routers with their prefixes.

    Since 0.140 FastAPI keeps included routers apart in `app.routes`.
    """
    every: Iterable[Any] = getattr(fastapi.routing, "iter_route_contexts", iter)(app.routes)
    return [
        route
        for route in every
        if isinstance(getattr(route, "original_route", route), APIRoute) and "POST" in (route.methods or ())
    ]


def check_tools(
    server: str, tools: Iterable[MCPTool] | None, remedy: str = "Leave them out by overriding `mcp_tools`."
) -> dict[str, MCPTool]:
    """Return the tools by name. Raises `ConfigError` for names that are reserved, illegal or given twice."""
    given = list(tools or ())
    names = [tool.name for tool in given]
    wrong = [name for name in names if not _NAME.fullmatch(name) or is_control_route(name)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if wrong or twice:
        problem = (
            f"these are no names of tools: {wrong}" if wrong else f"these names are given twice: {twice}"
        )
        raise ConfigError(
            f"`{server}` cannot offer its tools over MCP: {problem}",
            code="mcp_tools_invalid",
            remedy=remedy,
        )
    return dict(zip(names, given, strict=True))


def bare_tool_name(name: str, server_name: str | None = None) -> str:
    """Return the name without the prefix `mcp__<server>__` that MCP clients put before it.

    With `server_name`, only that server's prefix is removed.
    """
    if server_name is not None:
        return name.removeprefix(f"mcp__{server_name}__")
    prefix = MCP_TOOL_PREFIX.match(name)
    return name[prefix.end() :] if prefix else name


def _description(route: APIRoute) -> str:
    return route.description or route.summary or ""


def _schema(route: APIRoute) -> Mapping[str, Any]:
    fields = route.dependant.body_params
    model: Any = fields[0].field_info.annotation if len(fields) == 1 else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return ANY_ARGUMENTS
    return model.model_json_schema()
