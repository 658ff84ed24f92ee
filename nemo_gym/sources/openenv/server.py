"""The routes of an OpenEnv server. An attempt lives as long as its web socket; `/reset` and `/step` keep none.

GET  /health /metadata /schema /openapi.json
POST /reset, /step; GET /state            each on an environment of its own, as OpenEnv's servers do
WS   /ws                                  reset, step, state, mcp, close
POST /mcp; WS /mcp                        JSON-RPC: tools/list, tools/call
GET  /list_environments, /NAME/splits; POST /NAME/tasks, /num_tasks, /task, /task_range
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from nemo_gym.failures import GymError, InputError
from nemo_gym.names import TOKEN_HEADER
from nemo_gym.serving.browser_requests import BrowserCheck
from nemo_gym.sources.openenv.episode import ClientEpisode
from nemo_gym.sources.openenv.messages import SCHEMAS, Connection, show
from nemo_gym.sources.openenv.tasks import TaskSplits
from nemo_gym.transport.server_client import ServerClient

_MOST_BYTES = 16 << 20
_PING_S = 30.0
_STANDARD = "1.0.0"
"""The version of OpenEnv's standard of routes, which its validation reads from OpenAPI."""
_OPEN_ROUTES = frozenset({"/health"})
_HTTP_ROUTES = (
    *(("get", "/health"), ("get", "/metadata"), ("get", "/schema"), ("get", "/list_environments")),
    *(("post", "/reset"), ("post", "/step"), ("get", "/state"), ("post", "/mcp")),
)


@dataclass(slots=True)
class OpenEnvServer:
    """An environment of a running gym, offered by OpenEnv's protocol."""

    client: ServerClient
    name: str
    """The resources server, which is the environment's name."""
    tasks: TaskSplits
    version: str
    description: str = ""
    token: str | None = None
    """If given, every request but `/health` needs it."""
    browsers: BrowserCheck = field(default_factory=BrowserCheck)
    turns: Iterator[int] = field(default_factory=itertools.count)
    """Numbers of resets, by which those that name no task take one after the other."""

    def build_app(self) -> web.Application:
        app = web.Application(client_max_size=_MOST_BYTES, middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/health", self._answer_with({"status": "healthy"})),
                web.get("/metadata", self._answer_with(self._describe())),
                web.get("/schema", self._answer_with(SCHEMAS)),
                web.get("/openapi.json", self._answer_with(self._describe_api())),
                web.get("/state", self._answer_with(self._connect().state)),
                web.get("/list_environments", self._answer_with([self.name])),
                web.get(f"/{self.name}/splits", self._answer_with(self.tasks.list_splits())),
                web.post("/reset", self._reset),
                web.post("/step", self._step),
                web.post("/mcp", self._answer_rpc),
                web.get("/mcp", self._follow_rpc),
                web.get("/ws", self._follow),
                *(web.post(f"/{self.name}/{name}", self._find_tasks) for name in _TASK_ROUTES),
            ]
        )
        return app

    def _connect(self) -> Connection:
        def open_episode(arguments: Mapping[str, Any]) -> ClientEpisode:
            return ClientEpisode(self.client, self.name, self.tasks.choose(arguments, next(self.turns)))

        return Connection(open_episode, self.tasks)

    def _describe(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description or self.name, "version": self.version}

    def _describe_api(self) -> dict[str, Any]:
        """Return the part of OpenAPI that OpenEnv's validation reads."""
        paths: dict[str, Any] = {}
        for method, path in _HTTP_ROUTES:
            paths.setdefault(path, {})[method] = {"responses": {"200": {"description": "OK"}}}
        return {"openapi": "3.1.0", "info": {"title": self.name, "version": _STANDARD}, "paths": paths}

    def _answer_with(self, body: object) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            return _json(body)

        return answer

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse requests of web pages and those without the token, and turn failures into error answers."""
        try:
            self.browsers.check({name.lower(): value for name, value in request.raw_headers})
            if self.token is not None and request.path not in _OPEN_ROUTES and not self._has_token(request):
                refusal = {"detail": f"the request lacks the run's token ({TOKEN_HEADER})"}
                return _json(refusal, status=401)
            return await handler(request)
        except GymError as error:
            return _json({"detail": str(error)}, status=error.failure.http_status)

    def _has_token(self, request: web.Request) -> bool:
        assert self.token is not None
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = (request.headers.get(TOKEN_HEADER, ""), bearer)
        return any(hmac.compare_digest(each.encode(), self.token.encode()) for each in given)

    async def _reset(self, request: web.Request) -> web.Response:
        arguments = await _read_object(request)
        async with _closing(self._connect()) as connection:
            return _json(show(await connection.reset(arguments)))

    async def _step(self, request: web.Request) -> web.Response:
        raise InputError(
            "an episode lives on a web socket",
            code="no_episode",
            status=409,
            remedy="Reset and step at /ws, as clients of OpenEnv do.",
        )

    async def _answer_rpc(self, request: web.Request) -> web.Response:
        return _json(await self._connect().answer_rpc(await _read_object(request)))

    async def _follow(self, request: web.Request) -> web.WebSocketResponse:
        async with _closing(self._connect()) as connection:
            return await _answer_messages(request, connection.answer)

    async def _follow_rpc(self, request: web.Request) -> web.WebSocketResponse:
        """Answer JSON-RPC; the attempt is at the first task, or at the one that the query names."""
        query: dict[str, Any] = dict(request.query)
        if "index" in query:
            query["index"] = int(query["index"]) if query["index"].isdecimal() else query["index"]
        async with _closing(self._connect()) as connection:
            await connection.reset(query)

            async def answer(text: str) -> dict[str, Any]:
                try:
                    return await connection.answer_rpc(orjson.loads(text))
                except orjson.JSONDecodeError:
                    return await connection.answer_rpc(None)

            return await _answer_messages(request, answer)

    async def _find_tasks(self, request: web.Request) -> web.Response:
        asked = await _read_object(request)
        rows = self.tasks.get_rows(str(asked.get("split")))
        name = request.path.rpartition("/")[2]
        return _json({**_TASK_ROUTES[name](self.tasks, rows, asked), "env_name": self.name})


def _get_task(tasks: TaskSplits, rows: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    index = asked.get("index")
    if not isinstance(index, int):
        raise InputError(f"`index` is {index!r}, and not a number", code="invalid_request", param="index")
    return {"task": tasks.get_row(asked["split"], index)}


def _get_range(tasks: TaskSplits, rows: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    start, stop = asked.get("start"), asked.get("stop")
    for name, value in (("start", start), ("stop", stop)):
        if value is not None and not isinstance(value, int):
            raise InputError(f"`{name}` is {value!r}, and not a number", code="invalid_request", param=name)
    return {"tasks": rows[start:stop]}


_TASK_ROUTES: Mapping[str, Callable[[TaskSplits, Any, Mapping[str, Any]], dict[str, Any]]] = {
    "tasks": lambda tasks, rows, asked: {"tasks": rows},
    "num_tasks": lambda tasks, rows, asked: {"num_tasks": len(rows)},
    "task": _get_task,
    "task_range": _get_range,
}


async def _answer_messages(
    request: web.Request, answer: Callable[[Any], Awaitable[dict[str, Any] | None]]
) -> web.WebSocketResponse:
    """Answer each message of a web socket until its end."""
    socket = web.WebSocketResponse(max_msg_size=_MOST_BYTES, heartbeat=_PING_S)
    await socket.prepare(request)
    async for message in socket:
        if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            break
        told = await answer(message.data)
        if told is None:
            break
        await socket.send_str(orjson.dumps(told).decode())
    await socket.close()
    return socket


@contextlib.asynccontextmanager
async def _closing(connection: Connection) -> AsyncIterator[Connection]:
    try:
        yield connection
    finally:
        await connection.close()


async def _read_object(request: web.Request) -> dict[str, Any]:
    body = await request.read()
    try:
        asked = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise InputError(f"the body is not JSON: {error}", code="invalid_request") from error
    if not isinstance(asked, dict):
        raise InputError("the body is not a JSON object", code="invalid_request")
    return asked


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")
