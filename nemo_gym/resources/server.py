"""Resources servers: the tools of an environment, the state of its sessions, and the verifier that scores."""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import abstractmethod
from collections.abc import Coroutine, Iterable
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from fastapi import FastAPI, Request, Response
from pydantic import Field, PrivateAttr, model_validator

from nemo_gym.config import bootstrap
from nemo_gym.config.addresses import is_loopback
from nemo_gym.config.types import BaseRunServerInstanceConfig
from nemo_gym.failures import Boundary
from nemo_gym.metrics.hooks import AggregateMetricsMixin
from nemo_gym.names import POSTED_ROUTE, TASKS_ROUTE
from nemo_gym.processes.workers import MEMORY_LIMIT_BYTES, default_pool, request_memory
from nemo_gym.protocol.resources_sessions import ResourcesCloseSessionRequest, ResourcesCloseSessionResponse
from nemo_gym.resources._verify_in_worker import ServerInWorker, build_in_worker, verify_in_worker
from nemo_gym.resources.answer_fault_rule import Control, score_faulty_answers, score_faulty_body
from nemo_gym.resources.handler_check import describe_posted, refuse_unusable_handlers
from nemo_gym.resources.judge_failsafe import judge_failsafe
from nemo_gym.resources.mcp import maybe_auto_expose
from nemo_gym.resources.mcp_clients import McpClients, McpServerOptions
from nemo_gym.resources.mcp_routes import McpToolRoutes, list_declared_tools
from nemo_gym.resources.mcp_tools import CatchAllRoute, MCPTool, bare_tool_name, is_tool_path
from nemo_gym.resources.sessions import AuthorsClose, ResourcesSessions, build_session_request, parse_close
from nemo_gym.resources.task_check import TaskCheck
from nemo_gym.rows.models import (
    BaseRunRequest,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
)
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.base import BaseServer, SimpleServer
from nemo_gym.serving.durability import add_durable_runs, capture_folder
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import parse_object
from nemo_gym.serving.session_access import SessionAccess
from nemo_gym.serving.sessions import (
    IDLE_S,
    SESSION_ID_KEY,
    SessionRegistry,
    close_sessions,
    sweep_abandoned,
)
from nemo_gym.transport.context import LEAVE_OUT_HEADER, NONE, TOKENS_HEADER

if TYPE_CHECKING:
    from nemo_gym.resources.recorded_tools import RecordedTools

log = logging.getLogger(__name__)

_LAST_CLOSING_S = 2.0
"""Maximum seconds for closing the open sessions when a server stops."""


class BaseResourcesServerConfig(BaseRunServerInstanceConfig):
    """The options of every resources server."""

    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.UNKNOWN

    RUNS_CODE: ClassVar[bool] = False
    """True if the server runs code of models in sandboxes."""

    verify_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds that a `verify` that is not async may take in its worker, without those in which it waits for a core."""
    open_verify: bool = False
    """Answer `POST /verify` without the run's token, so that a notebook can score answers. On loopback only."""
    verify_memory_mib: int = Field(default=MEMORY_LIMIT_BYTES >> 20, gt=0)
    """Memory of each worker process in MiB. Servers in one process share their workers; the largest limit counts."""
    expose_tools_over_mcp: bool = False
    """Offer the `POST` routes of the server, and the tools of its MCP servers, at `/mcp`."""
    mcp_servers: dict[str, McpServerOptions] = Field(default_factory=dict)
    """MCP servers whose tools are tools of the environment, each with a client of its own in every session."""
    session_idle_s: float = Field(default=IDLE_S, gt=0)
    """Seconds without a call after which a session is closed, when its rollout has no deadline."""

    replay: Literal["safe", "unsafe", "recorded", "snapshot"] = "safe"
    """How a replayed attempt of a durable run treats its tools. `safe`: it executes them again. `unsafe`: they have
    effects outside of the session, such as a mail, so an interrupted attempt begins afresh, and none is forked.
    `recorded`: it gets their recorded results, and the state of the session is not made again. `snapshot`: it begins
    with the last snapshot of the session, and gets the results before; without one it executes all of them again."""
    snapshot_after_s: float = Field(default=10.0, ge=0)
    """With `replay: snapshot`: the seconds of tool calls after which a snapshot is taken."""

    @model_validator(mode="after")
    def _keep_open_verify_on_loopback(self) -> Self:
        if self.open_verify and not is_loopback(self.host):
            raise ValueError(f"open_verify needs a loopback address, not {self.host}")
        return self


class BaseResourcesServer(BaseServer):
    config: BaseResourcesServerConfig


class SimpleResourcesServer(BaseResourcesServer, AggregateMetricsMixin, SimpleServer):
    """An environment: override `verify`, add tools in `setup_webserver`, keep state in `request.session`."""

    config: BaseResourcesServerConfig
    boundary: ClassVar[Boundary] = Boundary.VERIFIER
    cancel_on_disconnect: ClassVar[frozenset[str]] = frozenset({"/verify", "/aggregate_metrics"})
    authenticates_sessions: ClassVar[bool] = True
    reads_tokens: ClassVar[bool] = True
    """False if `verify` reads no token ids and log-probabilities: the attempts that it gets then have none.

    A subclass with a `verify` of its own says so itself."""
    _gym_worker: ServerInWorker | None = PrivateAttr(default=None)
    _gym_sessions: ResourcesSessions = PrivateAttr(default_factory=ResourcesSessions)
    _gym_mcp_clients: McpClients | None = PrivateAttr(default=None)
    _gym_tools: RecordedTools | None = PrivateAttr(default=None)

    def setup_webserver(self) -> FastAPI:
        request_memory(self.config.verify_memory_mib << 20)
        app = self.new_app()
        app.post("/seed_session", name="seed_session")(
            self._gym_sessions.wrap_seed_session(self.seed_session)
        )
        if inspect.iscoroutinefunction(self.verify):
            app.post("/verify")(judge_failsafe(score_faulty_answers(self.verify)))
        else:
            self._gym_worker = ServerInWorker(self)
            app.post("/verify", name="verify")(self._verify_in_worker)
        app.post("/close_session")(self._close_session_route)
        app.get("/aggregate_metrics")(self.describe_metrics)
        app.post("/aggregate_metrics")(self.aggregate_metrics)
        app.get("/reverify_mode")(self.get_reverify_mode)
        return app

    def new_app(self) -> GymApp:
        app = super().new_app()
        if self.config.replay in ("recorded", "snapshot"):
            configuration = getattr(self.server_client, "global_config_dict", None)
            add_durable_runs(app, capture_folder(configuration), self._record_tools)
        return app

    def _record_tools(self) -> RecordedTools:
        from nemo_gym.resources.recorded_tools import RecordedTools  # of durable runs only

        given, name = bootstrap.current(), self.config.name or type(self).__name__
        self._gym_tools = RecordedTools(self, f"{name}.{given.replica if given else 0}")
        return self._gym_tools

    async def snapshot_session(self, session: str, path: Path) -> bool:
        """Write the state of a session into a new file, with which `seed_session` can begin (`find_snapshot`).

        Called after tool calls of durable runs, with `replay: snapshot`. Returns False for a state that cannot be
        kept. Raises OSError.
        """
        return False

    def find_snapshot(self, session: str) -> Path | None:
        """Return the file with whose state `seed_session` has to begin; None for a session that begins as its task."""
        return self._gym_tools.find_snapshot(session) if self._gym_tools is not None else None

    def finish_app(self) -> FastAPI:
        app = super().finish_app()
        refuse_unusable_handlers(app)
        maybe_auto_expose(self, app)
        if self.config.mcp_servers:
            self._gym_mcp_clients = McpClients(self.config.name, self.config.mcp_servers)
            McpToolRoutes(self.config.name, app, self._gym_mcp_clients)

        async def answer_posted() -> dict[str, Any]:
            return describe_posted(self, app)

        task_check = TaskCheck(self, self.check_task if self.has_own_check() else None)

        async def answer_tasks(request: Request) -> dict[str, Any]:
            given = parse_object(await request.body()).get("rows")
            return await task_check.answer(given if isinstance(given, list) else [])

        app.get(POSTED_ROUTE, include_in_schema=False)(answer_posted)
        app.post(TASKS_ROUTE, include_in_schema=False)(answer_tasks)
        return app

    def mcp_tools(self, harvested: list[MCPTool], catchall: CatchAllRoute | None) -> list[MCPTool] | None:
        """Return the tools at `/mcp`: by default those made of the `POST` routes. `catchall.tool(...)` makes others."""
        return harvested

    def mcp_allowed_tools_for_session(self, seed_body: dict[str, Any]) -> list[str] | None:
        """Return the names of the tools that a session may call at `/mcp`; None for all. `seed_body` is the task row.

        By default these are the tools that the row declares, and all tools for a row that declares none.
        """
        return list_declared_tools(seed_body) or None

    def list_session_mcp_tools(self, session: str) -> list[MCPTool]:
        """Return the tools that the session has from MCP servers."""
        return self._gym_mcp_clients.tools(session) if self._gym_mcp_clients is not None else []

    def mcp_folder(self, session: str) -> Path | None:
        """Return the folder of a session's MCP programs, which a `verify` can read; None without `mcp_servers`."""
        return self._gym_mcp_clients.folder(session) if self._gym_mcp_clients is not None else None

    def normalize_tool_name(self, name: str) -> str:
        """Return the name of a tool without the prefix of MCP clients."""
        return bare_tool_name(name, self.config.name)

    async def seed_session(self, body: BaseSeedSessionRequest) -> BaseSeedSessionResponse:
        """Set up the session's state. A second call with the same session sets it up again."""
        return BaseSeedSessionResponse()

    async def check_task(self, body: BaseRunRequest) -> None:
        """Raise `InputError` for a task that no attempt can solve, with its field as `param`.

        A run calls it for the rows of a dataset before the first rollout, without a session.
        """

    @classmethod
    def has_own_check(cls) -> bool:
        """Return whether the author of the environment wrote a `check_task`."""
        return cls.check_task is not SimpleResourcesServer.check_task

    @abstractmethod
    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        """Score an attempt without changing or ending the session: a second call returns the same answer."""

    async def _verify_in_worker(self, request: Request) -> Response:
        assert self._gym_worker is not None
        pool, timeout_s = default_pool(), self.config.verify_timeout_s
        server, left_out = self._gym_worker, request.headers.get(LEAVE_OUT_HEADER)
        body = await request.body()

        async def verify(control: Control | None) -> bytes:
            job = (server, body, left_out, control)
            return await pool.submit(verify_in_worker, job, {}, timeout_s=timeout_s, name="verify")

        return JsonResponse(await score_faulty_body(verify, body))

    def _new_access(self) -> SessionAccess:
        access = super()._new_access()
        if self.config.open_verify:
            access.control_routes -= {"/verify"}
        if not _reads_tokens(type(self)):
            access.opening_headers = ((TOKENS_HEADER.encode(), NONE.encode()),)
        return access

    def new_sessions(self) -> SessionRegistry:
        return SessionRegistry(idle_s=self.config.session_idle_s)

    def background_tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        yield sweep_abandoned(self.middleware.access.sessions, self._release)
        if self._gym_worker is not None:
            yield self.warm_workers()

    async def before_stop(self) -> None:
        sessions = self.middleware.access.sessions
        try:
            async with asyncio.timeout(_LAST_CLOSING_S):
                await close_sessions(sessions, sessions.names(), self._release)
        except TimeoutError:
            log.warning("`%s` stops while %d sessions are still open", self.config.name, len(sessions))

    async def warm_workers(self) -> None:
        """Build the server in every worker before the first attempt."""
        pool = default_pool()
        jobs = (
            pool.submit(build_in_worker, (self._gym_worker,), {}, timeout_s=self.config.verify_timeout_s)
            for _ in range(pool.size)
        )
        for problem in await asyncio.gather(*jobs, return_exceptions=True):
            if isinstance(problem, Exception):
                log.error(
                    "Building `%s` in a worker failed, so every verify call will fail: %s",
                    self.config.name,
                    problem,
                )
                return

    async def _answer_stats(self) -> dict[str, Any]:
        paths = self.middleware.stats.paths
        tools = {path[1:]: asdict(paths[path]) for path in sorted(paths) if is_tool_path(path)}
        verify = {"verify": asdict(paths["/verify"])} if "/verify" in paths else {}
        return {**await super()._answer_stats(), "tools": tools, **verify}

    async def release_session(self, session_id: str) -> None:
        """Release the session's resources. Called once per session, for every outcome."""

    async def close_resources_session(
        self, body: ResourcesCloseSessionRequest
    ) -> ResourcesCloseSessionResponse:
        """Release what `seed_session` created for an environment server's session. Called again if it raises.

        It may take `(request, body)` too. A body that may be None is None for the sessions that agents opened, which
        `request.session` names.
        """
        return ResourcesCloseSessionResponse(resources_session_id=body.resources_session_id)

    @cached_property
    def _authors_close(self) -> AuthorsClose:
        return AuthorsClose(self.close_resources_session)

    async def _release(self, session: str) -> Any:
        close = partial(self._authors_close, build_session_request(session))
        try:
            return await self._gym_sessions.close_opened(session, close)
        finally:
            try:
                await self.release_session(session)
            finally:
                if self._gym_mcp_clients is not None:
                    await self._gym_mcp_clients.close(session)

    async def _close_session_route(self, request: Request) -> Any:
        session = request.session[SESSION_ID_KEY]
        close = partial(self._authors_close, request)
        named = parse_close(await request.body())
        answer = await self._gym_sessions.close_named(named, close) if named is not None else None
        request.session[SESSION_ID_KEY] = session  # the author may have removed it
        was_open = self.middleware.access.sessions.close(session)
        if was_open:
            of_session = await self._release(session)
        else:  # the author may hold something that no `seed_session` opened
            of_session = await self._gym_sessions.close_opened(session, close) if named is None else None
        if named is not None:
            return answer
        if self._authors_close.takes_agents_sessions:
            return of_session
        return {"session_id": session, "was_open": was_open}

    async def get_reverify_mode(self) -> ReverifyMode:
        """Return whether stored rollouts can be verified again without their sessions."""
        return self.config.REVERIFY_MODE


def _reads_tokens(environment: type[SimpleResourcesServer]) -> bool:
    """Return the `reads_tokens` of the class that has `verify`, or of one derived from it."""
    for each in environment.__mro__:
        if "reads_tokens" in vars(each):
            return bool(vars(each)["reads_tokens"])
        if "verify" in vars(each):
            return True
    return True
