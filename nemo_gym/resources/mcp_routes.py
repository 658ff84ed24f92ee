"""The routes of a resources server whose tools come from MCP servers: a session opens clients, its calls use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.failures import ConfigError, InputError
from nemo_gym.json_objects import parse_json
from nemo_gym.protocol.task_folders import TaskWithFolder
from nemo_gym.resources.mcp_clients import McpClients
from nemo_gym.resources.mcp_tools import harvest_tools, read_declared_tools
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.models import read_task
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.routes import parse_object
from nemo_gym.serving.session_access import EXCLUSIVE_ROUTES
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.transport.context import current_context
from nemo_gym.transport.request_body import WholeBody


class McpToolRoutes:
    """The tools of MCP servers at `POST /<tool>`, after the author's own routes."""

    def __init__(self, name: str, app: FastAPI, clients: McpClients) -> None:
        """Add them to the finished app of the server `name`.

        Raises `ConfigError` for an app that the author made without `super().setup_webserver()`, or that has a route
        for tools of any name.
        """
        own, catchall = harvest_tools(app, taken=EXCLUSIVE_ROUTES)
        if not isinstance(app, GymApp) or catchall is not None:
            raise ConfigError(
                f"`{name}` cannot take tools from MCP servers: its app is of its own, or has a route for every tool",
                code="mcp_app_unsupported",
                remedy="Make the app with super().setup_webserver() and routes of fixed names, or remove mcp_servers.",
            )
        self._name = name
        self._own = {tool.name for tool in own}
        self._clients = clients
        app.layers.append(self._open_and_handle)
        app.post("/{tool}")(self.call)

    async def call(self, tool: str, request: Request) -> Response:
        """Call a tool of the session with the JSON object of arguments in the body."""
        arguments = parse_object(await request.body() or b"{}", parse=parse_json)
        text = await self._clients.call(request.session[SESSION_ID_KEY], tool, arguments)
        return Response(text, media_type="text/plain; charset=utf-8")

    async def _open_and_handle(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/seed_session" and isinstance(receive, WholeBody):
            await self._open(parse_object(receive.body or b"{}"))
        await handler(scope, receive, send)

    async def _open(self, seed: Mapping[str, Any]) -> None:
        context = current_context.get()
        assert context is not None
        row = seed.get("task_data") or {} if "resources_session_id" in seed else seed
        await self._clients.open(context.session, read_task(TaskWithFolder, row).folder.files)
        offered = self._own | {tool.name for tool in self._clients.tools(context.session)}
        missing = [name for name in list_declared_tools(row) if name not in offered]
        if missing:
            await self._clients.close(context.session)
            raise InputError(
                f"the task declares the tools {missing}, which `{self._name}` does not serve; "
                f"its tools are: {', '.join(sorted(offered))}",
                code="unknown_tool",
                param="responses_create_params.tools",
            )


def list_declared_tools(row: AnyRow) -> list[str]:
    """Return the names of the functions that a task row declares."""
    return list(read_declared_tools(row))
