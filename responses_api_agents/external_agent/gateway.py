"""The only way out of an agent's sandbox: an HTTP server that answers calls of one attempt's model and tools.

It listens on a Unix socket inside the attempt's workspace, or on a loopback port for an agent without a sandbox. A
request needs the attempt's key as `Authorization: Bearer` or `x-api-key`. Model calls go to the model server under the
rollout's path, and `/mcp` to the resources server with the session's token, which the agent never sees. Every other
path, in any spelling, is unknown here.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import socket as socketlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from aiohttp import web
from multidict import CIMultiDict

from nemo_gym.episodes.driver import read_failure
from nemo_gym.failures import Boundary, Failure, GymError
from nemo_gym.names import CALL_ROUTES, MCP_TOKEN_HEADER, MODEL_ROUTES
from nemo_gym.transport.context import current_context
from nemo_gym.transport.server_client import ServerClient, ServerReply
from responses_api_agents.external_agent.tool_failures import ToolFailures

MCP_PATH = "/mcp"
LONGEST_REQUEST_BYTES = 64 << 20
_OWN_HEADERS = frozenset(
    {"host", "cookie", "content-length", "transfer-encoding", "connection", "keep-alive", "expect", "upgrade"}
)
"""Headers of one hop, and those that would name another session."""
_OWN_PREFIXES = ("x-ng-", "x-nemo-gym-")
_MACHINE_FAULTS = 500
_silent = logging.Logger("external_agent.gateway", logging.CRITICAL + 1)
"""The log of requests that are not HTTP: an agent must not fill the gym's log."""


@dataclass(slots=True)
class GatewayTargets:
    """The servers of an attempt."""

    key: str
    """The key of the rollout at the model server, which opens the gateway, too."""
    model: str
    model_path: str
    """The path at the model server that takes the place of `/v1`; it names the rollout."""
    resources: str
    mcp_token: str | None
    """The session's token at the resources server; None if it offers no tools over MCP."""


@dataclass(slots=True)
class AttemptGateway:
    """The gateway of one attempt."""

    client: ServerClient
    targets: GatewayTargets
    tools: ToolFailures
    calls: int = 0
    """Generating calls that were passed on."""
    is_over_budget: bool = False
    """True once the model server refused a call because the budget of the opened rollout was used up."""
    has_spent_budget: bool = False
    """True once it refused a call because the budget that the run gives the rollout was."""
    failure: Failure | None = field(default=None)
    """The failure of the last model call, if the machine is at fault; None if it was answered."""

    @asynccontextmanager
    async def listening(self, socket: Path | None = None) -> AsyncIterator[int | None]:
        """Serve within the block: on a socket file, or on a free loopback port, which is yielded."""
        app = web.Application(client_max_size=LONGEST_REQUEST_BYTES)
        context = current_context.get()

        async def answer(request: web.Request) -> web.Response:
            current_context.set(context)
            return await self._answer(request)

        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, logger=_silent, shutdown_timeout=0
        )
        await runner.setup()
        assert runner.server is not None
        loop = asyncio.get_running_loop()
        if socket is not None:
            server = await loop.create_unix_server(runner.server, sock=bound_socket(socket))
        else:
            server = await loop.create_server(runner.server, "127.0.0.1", 0)
        try:
            yield None if socket is not None else server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.raw_path.partition("?")[0]
        if path == "/" and request.method in ("GET", "HEAD"):
            return web.Response()  # harnesses probe their base URL
        if path not in MODEL_ROUTES and path != MCP_PATH:
            return _refusal(404, "not_found", f"the gateway has no {request.raw_path[:200]}")
        if not self._has_key(request):
            return _refusal(401, "invalid_key", "the request lacks the key of this attempt")
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _OWN_HEADERS and not name.lower().startswith(_OWN_PREFIXES)
        }
        body = await request.read() or None
        if path == MCP_PATH:
            return await self._call_tools(request.method, body, headers)
        return await self._call_model(request.method, path, body, headers)

    def _has_key(self, request: web.Request) -> bool:
        given = (
            request.headers.get("authorization", "")[len("Bearer ") :],
            request.headers.get("x-api-key", ""),
        )
        return any(hmac.compare_digest(proof.encode(), self.targets.key.encode()) for proof in given)

    async def _call_tools(self, method: str, body: bytes | None, headers: dict[str, str]) -> web.Response:
        token = self.targets.mcp_token
        if token is None:
            return _refusal(404, "not_found", "the environment offers no tools over MCP")
        headers = {
            name: value
            for name, value in headers.items()
            if name.lower() not in ("authorization", "x-api-key")
        }
        try:
            reply = await self.client.request(
                method,
                self.targets.resources,
                MCP_PATH,
                data=body,
                headers={**headers, MCP_TOKEN_HEADER: token},
            )
        except GymError as error:
            self.tools.note_unanswered(body, error.failure)
            return _refusal(502, error.failure.code, str(error))
        self.tools.note_answer(body, reply.body)
        return _passed_on(reply)

    async def _call_model(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> web.Response:
        is_generating = method == "POST" and path in CALL_ROUTES
        targets = self.targets
        self.calls += is_generating
        try:
            reply = await self.client.request(
                method,
                targets.model,
                targets.model_path + path.removeprefix("/v1"),
                data=body,
                headers=headers,
            )
        except GymError as error:
            self.failure = error.failure
            return _refusal(502, error.failure.code, str(error))
        if is_generating:
            self._note(reply)
        return _passed_on(reply)

    def _note(self, reply: ServerReply) -> None:
        self.failure = None
        if not reply.ok:
            failure = read_failure(reply, self.targets.model, "answer")
            self.is_over_budget |= failure.code == "rollout_budget_exhausted"
            self.has_spent_budget |= failure.code == "budget_spent"
            if failure.boundary is not Boundary.INPUT and reply.status >= _MACHINE_FAULTS:
                self.failure = failure


def bound_socket(place: Path) -> socketlib.socket:
    """Create a socket at a path, which may be longer than the name of a socket. Only its owner can connect to it."""
    folder = os.open(place.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        bound = socketlib.socket(socketlib.AF_UNIX)
        os.fchmod(bound.fileno(), 0o600)  # before it has a name, which a program could replace
        bound.bind(f"/proc/self/fd/{folder}/{place.name}")
        return bound
    finally:
        os.close(folder)


def _passed_on(reply: ServerReply) -> web.Response:
    headers = CIMultiDict(
        (name, value)
        for name, value in reply.headers.items()
        if name.lower() not in _OWN_HEADERS
        and name.lower() not in ("set-cookie", "content-encoding", "date", "server")
        and not name.lower().startswith(_OWN_PREFIXES)
    )
    return web.Response(body=reply.body, status=reply.status, headers=headers)


def _refusal(status: int, code: str, message: str) -> web.Response:
    """An error in the form that clients of all APIs read."""
    error = {"type": "error", "error": {"type": code, "code": code, "message": message}}
    return web.Response(body=orjson.dumps(error), status=status, content_type="application/json")
