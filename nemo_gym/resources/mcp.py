"""The MCP endpoint of a resources server (`expose_tools_over_mcp`): its tools for agents that speak MCP.

`POST /mcp` answers JSON-RPC without a session of its own: `initialize`, `ping`, `tools/list` and `tools/call`. The
response of `/seed_session` has a token, a signed name of the gym's session. A call of a tool is a request to the
tool's route in that session, through the same middleware as over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json, object_in, parse_json
from nemo_gym.names import MCP_METADATA_KEY, MCP_TOKEN_HEADER, PLACE_HEADER, TOKEN_HEADER
from nemo_gym.resources.mcp_tools import (
    GYM_PATHS,
    MCP_PATH,
    MCPTool,
    bare_tool_name,
    check_tools,
    harvest_tools,
    read_declared_tools,
)
from nemo_gym.rows.compose import attach_response
from nemo_gym.rows.parts import read_response
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import parse_object
from nemo_gym.transport.calls import Call, Reply
from nemo_gym.transport.context import SESSION_HEADER, current_context
from nemo_gym.transport.memory import InMemoryTransport, collect_reply
from nemo_gym.transport.request_body import WholeBody

if TYPE_CHECKING:
    from nemo_gym.resources.server import SimpleResourcesServer

__all__ = ["PLACE_META", "STATUS_META"]

PROTOCOL_VERSIONS = ("2025-06-18", "2025-03-26")
"""The versions of MCP that are answered, the newest first."""
_MOST_SESSIONS = 4_096
STATUS_META, PLACE_META = "nemo-gym/status", "nemo-gym/place"
"""Members of `_meta` of a failed call: the status of the tool's route, and the author's `file:line` if it is known."""
_METHOD_NOT_FOUND, _INVALID_PARAMS = -32601, -32602
_ALL = None
_SESSION_TOKEN = MCP_TOKEN_HEADER.lower().encode()


class SessionClaims(NamedTuple):
    """The content of a token."""

    session: str
    tools: list[str] | None = _ALL
    """The tools that the session may call; None for all."""


def maybe_auto_expose(server: SimpleResourcesServer, app: FastAPI) -> dict[str, MCPTool] | None:
    """Add the endpoint to the finished app of `server` if its configuration asks for it, and return the tools by name.

    Raises `ConfigError` for an app that the author made without `super().setup_webserver()`, or that has the route.
    """
    if not server.config.expose_tools_over_mcp:
        return None
    name = server.config.name
    if not isinstance(app, GymApp) or any(getattr(route, "path", "") == MCP_PATH for route in app.routes):
        raise ConfigError(
            f"`{name}` cannot offer its tools over MCP: its app is of its own, or has a route {MCP_PATH}",
            code="mcp_app_unsupported",
            remedy="Make the app with super().setup_webserver(), or remove expose_tools_over_mcp.",
        )
    tools, catchall = harvest_tools(app, taken=GYM_PATHS)
    exposure = _Exposure(server, app, check_tools(name, server.mcp_tools(tools, catchall)))
    app.layers.append(exposure.wrap_sessions)
    app.post(MCP_PATH, include_in_schema=False)(exposure.answer)
    app.router.routes.insert(0, app.router.routes.pop())  # before a route whose path is a parameter
    access = server.middleware.access
    access.proofs[MCP_PATH] = exposure.has_session
    return exposure.tools


class _Exposure:
    """The endpoint of one server."""

    def __init__(self, server: SimpleResourcesServer, app: GymApp, tools: Mapping[str, MCPTool]) -> None:
        self.tools = dict(tools)
        self._server = server
        self._name = server.config.name
        self._access = server.middleware.access
        # A key of its own, so that a token is no session cookie and a cookie no token.
        self._tokens = self._access.cookies.derive_key(MCP_PATH)
        self._transport = InMemoryTransport({"": app})
        self._declared: dict[str, Mapping[str, Mapping[str, Any]]] = {}
        """Open session → the tools of its task row by name."""
        self._methods: dict[str, Callable[[SessionClaims | None, dict[str, Any]], Any]] = {
            "initialize": self._initialize,
            "ping": lambda claims, params: {},
            "tools/list": self._list,
        }

    async def answer(self, request: Request) -> Response:
        """Answer one message of a client."""
        asked = parse_object(await request.body(), parse=parse_json)
        if "id" not in asked:
            return Response(status_code=202)  # a notification
        claims = self._claims(request.headers.get(MCP_TOKEN_HEADER))
        method, params = str(asked.get("method")), asked.get("params") or {}
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        if method == "tools/call":
            answer["result"] = await self._call(claims, params)
        elif method in self._methods:
            answer["result"] = self._methods[method](claims, params)
        else:
            answer["error"] = {"code": _METHOD_NOT_FOUND, "message": f"there is no method {method!r}"}
        return JsonResponse(dump_json(answer))

    def _initialize(self, claims: SessionClaims | None, params: dict[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self._name, "version": "1"},
        }

    def _list(self, claims: SessionClaims | None, params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [tool.to_wire() for tool in self._list_session_tools(claims).values()]}

    def _list_session_tools(self, claims: SessionClaims | None) -> Mapping[str, MCPTool]:
        """Return the tools that the session may call; without one, those of the server."""
        if claims is None:
            return self.tools
        taken = self._server.list_session_mcp_tools(claims.session)
        every = {**{tool.name: tool for tool in taken}, **self.tools}
        declared = self._declared.get(claims.session, {})
        return {
            name: every[name].describe_as(declared.get(name, {}))
            for name in every
            if claims.tools is _ALL or name in claims.tools
        }

    async def _call(self, claims: SessionClaims | None, params: dict[str, Any]) -> dict[str, Any]:
        name = str(params.get("name"))
        tool = self._list_session_tools(claims).get(name)
        if claims is None:
            return _error_result(f"the call needs the header {MCP_TOKEN_HEADER} of a session of this server")
        if tool is None:
            return _error_result(f"there is no tool {name!r}")
        headers = {SESSION_HEADER: claims.session, "content-type": "application/json"}
        if self._access.token is not None:
            headers[TOKEN_HEADER] = self._access.token
        body = dump_json(params.get("arguments") or {})
        return _build_result(await self._transport.send("", Call("POST", tool.path, body, headers)))

    def has_session(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether a request has the token of a session."""
        return self._claims(headers.get(_SESSION_TOKEN, b"").decode("latin-1")) is not None

    def _claims(self, token: str | None) -> SessionClaims | None:
        signed = self._tokens.read_session(token) if token else None
        return SessionClaims(*orjson.loads(signed)) if signed is not None else None

    async def wrap_sessions(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the token to the answer of `/seed_session`, and give `/verify` the tools' own names."""
        context = current_context.get()
        if scope["path"] == "/close_session" and context is not None:
            self._declared.pop(context.session, None)
        change = {"/seed_session": self._add_token, "/verify": self._restore_client_names}.get(scope["path"])
        if change is None or not isinstance(receive, WholeBody):
            await handler(scope, receive, send)
            return
        body = receive.body
        if scope["path"] == "/verify":
            receive = WholeBody(_rename_calls(body, self._name), receive)
        reply = await collect_reply(handler, scope, receive)
        headers = {name: value for name, value in reply.headers.items() if name.lower() != "content-length"}
        answer = change(body, reply.body) if reply.ok else reply.body
        await Response(answer, reply.status, headers)(scope, receive, send)

    def _add_token(self, body: bytes, answer: bytes) -> bytes:
        context = current_context.get()
        assert context is not None
        seed = parse_json(body or b"{}")
        is_named = "resources_session_id" in seed
        row = seed.get("task_data") or {} if is_named else seed
        self._declared[context.session] = read_declared_tools(row)
        if len(self._declared) > _MOST_SESSIONS:  # sessions that no client has closed
            del self._declared[next(iter(self._declared))]
        allowed = self._server.mcp_allowed_tools_for_session(row)
        token = self._tokens.sign(orjson.dumps([context.session, allowed]).decode())
        metadata = {
            "server_name": self._name,
            "url_path": MCP_PATH,
            "transport": "http",
            "headers": {MCP_TOKEN_HEADER: token},
        }
        key = "resources_tools" if is_named else MCP_METADATA_KEY
        return dump_json({**(parse_json(answer or b"{}") or {}), key: metadata})

    def _restore_client_names(self, body: bytes, answer: bytes) -> bytes:
        """Give the echoed response of an answer the names that the client used."""
        scored, asked = parse_json(answer), parse_json(body)
        if isinstance(scored, dict) and read_response(scored) and read_response(asked):
            whole = {**read_response(scored), "output": read_response(asked).get("output")}
            scored = attach_response(scored, whole)
        return dump_json(scored)


def _rename_calls(body: bytes, server_name: str) -> bytes:
    """Return a verify request whose tool calls have the names of the server's tools."""
    try:
        asked = parse_json(body)
        output = asked["response"]["output"]
    except (ValueError, KeyError, TypeError):
        return body  # the route reports what is wrong with it
    for item in output if isinstance(output, list) else ():
        if (
            isinstance(item, dict)
            and item.get("type") == "function_call"
            and isinstance(item.get("name"), str)
        ):
            item["name"] = bare_tool_name(item["name"], server_name)
    return dump_json(asked)


def _build_result(reply: Reply) -> dict[str, Any]:
    text = reply.body.decode(errors="replace")
    if not reply.ok:
        place = reply.headers.get(PLACE_HEADER)
        error = {STATUS_META: reply.status, **({} if place is None else {PLACE_META: place})}
        return {**_error_result(text), "_meta": error}
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": False}
    is_object = object_in(reply.body) is not None
    return {**result, "structuredContent": parse_json(reply.body)} if is_object else result


def _error_result(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}], "isError": True}
