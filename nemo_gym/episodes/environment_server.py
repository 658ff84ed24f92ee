"""Environment servers: one class drives an episode through the sessions of other servers.

An author writes `run`. The base admits episodes, limits their time, and closes what `run` registered on every path,
cancellation included.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar, Generic, TypeVar

from fastapi import FastAPI, Request
from fastapi import Response as HttpResponse
from pydantic import BaseModel, PositiveFloat, PositiveInt, PrivateAttr

from nemo_gym.config.types import BaseRunServerInstanceConfig
from nemo_gym.failures import Boundary
from nemo_gym.metrics.hooks import AggregateMetricsMixin
from nemo_gym.protocol.episodes import BaseEpisodeRequest, BaseEpisodeResponse, EpisodeFailure
from nemo_gym.serving.base import SimpleServer
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import dump_body, parse_body
from nemo_gym.serving.run_gate import add_run_gate
from nemo_gym.transport.rollout_context import rollout_context

log = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=BaseModel)
ResponseT = TypeVar("ResponseT", bound=BaseModel)
Cleanup = Callable[[], Awaitable[object]]


class HandledEpisodeError(Exception):
    """Ends an episode with a failure that is data: the answer of `/run` is HTTP 200 and has no result."""

    def __init__(self, failure: EpisodeFailure) -> None:
        super().__init__(failure.failure_reason)
        self.failure = failure


class CleanupHandle:
    """One registered cleanup. It runs until it succeeds once."""

    def __init__(self, name: str, cleanup: Cleanup) -> None:
        self.name = name
        self._cleanup = cleanup
        self._lock = asyncio.Lock()
        self._is_done = False

    async def close(self) -> None:
        """Run the cleanup now, unless it has succeeded. Raises its error; the end of the episode tries again."""
        async with self._lock:
            if not self._is_done:
                await self._cleanup()
                self._is_done = True


class CleanupContext:
    """The cleanups of one episode. They run in reverse order when it ends, whatever its outcome."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._handles: list[CleanupHandle] = []

    def register_cleanup(self, name: str, cleanup: Cleanup) -> CleanupHandle:
        """Register a cleanup. Register it before the call that creates what it closes."""
        handle = CleanupHandle(name, cleanup)
        self._handles.append(handle)
        return handle

    async def close_all(self) -> None:
        """Run all cleanups, each within the cleanup timeout. Errors are logged."""
        while self._handles:
            handle = self._handles.pop()
            try:
                async with asyncio.timeout(self._timeout_s):
                    await handle.close()
            except Exception:
                log.exception("cleaning up the %s failed", handle.name)


class BaseEnvironmentServerConfig(BaseRunServerInstanceConfig):
    """The options of every environment server."""

    max_concurrent_episodes: PositiveInt | None = None
    queue_timeout_seconds: PositiveFloat | None = None
    """Seconds that an episode waits for its admission; None waits without a limit."""
    default_episode_timeout_seconds: PositiveFloat = 21600
    cleanup_timeout_seconds: PositiveFloat = 180
    """Seconds for each cleanup at the end of an episode."""


class BaseEnvironmentServer(AggregateMetricsMixin, SimpleServer, Generic[RequestT, ResponseT]):
    """An environment server: set `request_model` and `response_model`, and override `run`."""

    config: BaseEnvironmentServerConfig
    boundary: ClassVar[Boundary] = Boundary.AGENT
    cancel_on_disconnect: ClassVar[frozenset[str]] = frozenset({"/run"})
    authenticates_sessions: ClassVar[bool] = True
    request_model: ClassVar[type[BaseModel]] = BaseEpisodeRequest[Any]
    response_model: ClassVar[type[BaseModel]] = BaseEpisodeResponse[Any]
    _admission: AbstractAsyncContextManager[Any] = PrivateAttr(default_factory=nullcontext)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if self.config.max_concurrent_episodes is not None:
            self._admission = asyncio.Semaphore(self.config.max_concurrent_episodes)

    def setup_webserver(self) -> FastAPI:
        app = self.new_app()
        app.post("/run")(self._run_route)
        add_run_gate(app)
        app.post("/aggregate_metrics")(self.aggregate_metrics)
        return app

    @abstractmethod
    async def run(self, request: RequestT, cleanup: CleanupContext) -> ResponseT:
        """Run one episode. Raise `HandledEpisodeError` for a failure with a known stage."""

    async def _run_route(self, request: Request) -> HttpResponse:
        episode = parse_body(self.request_model, await request.body())
        return JsonResponse(dump_body(await self.run_request(episode)))

    async def run_request(self, request: Any) -> Any:
        """Run one episode with admission, time limit and cleanup, and return its `response_model`."""
        with rollout_context(request.episode_id.capture_key):
            try:
                async with asyncio.timeout(self.config.queue_timeout_seconds):
                    await self._admission.__aenter__()
            except TimeoutError:
                failure = EpisodeFailure(failure_reason="Episode admission timed out", stage="admission")
                return self._answer(request, failure)
            try:
                return await self._run_admitted(request)
            finally:
                await self._admission.__aexit__(None, None, None)

    async def _run_admitted(self, request: Any) -> Any:
        cleanup = CleanupContext(self.config.cleanup_timeout_seconds)
        limit = asyncio.timeout(self.config.default_episode_timeout_seconds)
        try:
            async with limit:
                return await self.run(request, cleanup)
        except HandledEpisodeError as error:
            return self._answer(request, error.failure)
        except TimeoutError:
            if not limit.expired():
                raise
            return self._answer(request, EpisodeFailure(failure_reason="Episode timed out", stage="episode"))
        finally:
            await _finish(cleanup.close_all())

    def _answer(self, request: Any, failure: EpisodeFailure) -> Any:
        about = {"episode_id": request.episode_id, "task_id": request.task.task_id}
        return self.response_model.model_validate(about | {"failure": failure.model_dump(exclude_unset=True)})


async def _finish(work: Any) -> None:
    """Await `work` to its end, even if this task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
