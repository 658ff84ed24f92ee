"""The base classes of all servers: configuration, server client, app and middleware, and the server process."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import sys
import traceback
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, cast

import uvloop
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from starlette.responses import Response
from starlette.types import ASGIApp

from nemo_gym.config import bootstrap
from nemo_gym.config.addresses import IN_MEMORY_HOST, is_loopback
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.config.problems import ConfigErrors, Location, Problem
from nemo_gym.config.types import BaseRunServerInstanceConfig, BaseServerConfig, Placement
from nemo_gym.failures import Boundary, ConfigError
from nemo_gym.names import (
    ALLOWED_HOSTS,
    CANNOT_START,
    CLOCK_ROUTE,
    DEFAULT_MAX_BODY_MIB,
    DIRECTORY_KEY,
    HEALTH_ROUTES,
    MAX_BODY_MIB,
    METRICS_ROUTE,
    OPEN_NETWORK,
    SESSIONS_ROUTE,
)
from nemo_gym.processes.author_code import locate_function
from nemo_gym.processes.loop_monitor import LoopMonitor
from nemo_gym.serving._busy_sessions import BusySessions
from nemo_gym.serving._error_responses import set_error_form
from nemo_gym.serving.admission import AdmissionLimit
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.browser_requests import BrowserCheck
from nemo_gym.serving.garbage import collected_rarely
from nemo_gym.serving.listening import GymServer, web_config
from nemo_gym.serving.log_lines import LogFormatter
from nemo_gym.serving.middleware import RequestMiddleware
from nemo_gym.serving.prometheus import CONTENT_TYPE, exposition
from nemo_gym.serving.replica_access import ReplicaAccess
from nemo_gym.serving.request_bodies import BodyReader
from nemo_gym.serving.session_access import SessionAccess
from nemo_gym.serving.sessions import SessionCookies, SessionRegistry
from nemo_gym.serving.tracing import build_tracing_layers, flush_traces
from nemo_gym.tls import server_context, uses_tls
from nemo_gym.transport.directory import list_bound_hosts, server_block
from nemo_gym.transport.http import raise_file_limit
from nemo_gym.transport.moving_caller import MovingCaller
from nemo_gym.transport.pausing import hold_clock
from nemo_gym.transport.pools import close_transports, open_circuits, rate_limited_calls, transport_to
from nemo_gym.transport.server_client import ServerClient

log = logging.getLogger(__name__)


class BaseServer(BaseModel):
    """A server object with `config` and `server_client`; subclasses set up their state in `model_post_init`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    config: BaseRunServerInstanceConfig
    server_client: ServerClient
    ray_enabled: ClassVar[bool | None] = None
    """Servers of the ecosystem set it to request Ray in their process. Here it has no effect: no server starts Ray."""

    @classmethod
    def load_config_from_global_config(cls) -> BaseRunServerInstanceConfig:
        """Return this process's configuration as the config type of the class."""
        given = bootstrap.current()
        if given is None:
            raise RuntimeError(
                f"{cls.__name__} was not started by ng_run, which passes a server its configuration; "
                "start it with ng_run '+config_paths=[...]'"
            )
        return cls.build_server_config(given.server_name, given.global_config)

    @classmethod
    def config_class(cls) -> type[BaseRunServerInstanceConfig]:
        """Return the class of the server's options."""
        return cast(type[BaseRunServerInstanceConfig], cls.model_fields["config"].annotation)

    @classmethod
    def build_server_config(cls, name: str, global_config: Mapping[str, Any]) -> BaseRunServerInstanceConfig:
        block = server_block(global_config[name])
        assert block is not None
        return cls.config_class().model_validate({**block, "name": name})


class SimpleServer(BaseServer):
    """A server with an app. Subclasses add routes in `setup_webserver`."""

    boundary: ClassVar[Boundary] = Boundary.AGENT
    cancel_on_disconnect: ClassVar[frozenset[str]] = frozenset()
    """Routes whose handlers are cancelled when the client disconnects."""
    policy_paths: ClassVar[frozenset[str]] = frozenset()
    """Routes whose handlers run the policy; they cannot call control routes."""
    authenticates_sessions: ClassVar[bool] = False
    """If True, a request can use a session only with the run's token or a signed cookie."""
    _loop_monitor: LoopMonitor | None = PrivateAttr(default=None)
    _busy_sessions: BusySessions = PrivateAttr(default_factory=BusySessions)

    @cached_property
    def middleware(self) -> RequestMiddleware:
        """The middleware of this server's app, created on first use."""
        return RequestMiddleware(
            self._new_access(),
            self.boundary,
            self.cancel_on_disconnect,
            self.policy_paths,
            _new_browser_check(),
            BodyReader(_max_body_mib()),
        )

    def _new_access(self) -> SessionAccess:
        given = bootstrap.current()
        name = self.config.name or type(self).__name__
        new_access: Callable[..., SessionAccess] = SessionAccess
        if given is not None and given.generation is not None:
            new_access = partial(ReplicaAccess, generation=given.generation)
        return new_access(
            server_name=name,
            cookies=SessionCookies(
                name,
                given.cookie_key if given else secrets.token_hex(32),
                is_tls=given is not None and uses_tls(given.global_config),
            ),
            sessions=self.new_sessions(),
            token=given.run_token if given else None,
            guards_every_route=given is not None and _is_guarded(self.config.host, given.global_config),
            authenticates_sessions=self.authenticates_sessions,
        )

    def new_sessions(self) -> SessionRegistry:
        return SessionRegistry()

    def new_app(self) -> GymApp:
        """Create an app with the routes that all servers have."""
        app = GymApp(self.middleware, title=self.config.name or type(self).__name__)
        app.layers.extend(build_tracing_layers(app.title))
        given = bootstrap.current()
        if given is not None and given.generation is not None:
            app.layers.append(self._busy_sessions)
        placement = self.config.placement
        if isinstance(placement, Placement) and placement.max_in_flight is not None:
            app.layers.append(AdmissionLimit(placement.max_in_flight))
        self.add_common_routes(app)
        return app

    def add_common_routes(self, app: GymApp) -> None:
        app.get("/")(_answer_ok)
        for path in sorted(HEALTH_ROUTES):
            app.get(path, include_in_schema=False)(_answer_ok)
        app.get("/_ng/stats")(self._answer_stats)
        app.get(SESSIONS_ROUTE, include_in_schema=False)(self._answer_sessions)
        app.post(CLOCK_ROUTE, include_in_schema=False)(_hold_clock)
        app.get(METRICS_ROUTE, include_in_schema=False)(self._answer_metrics)

    async def _answer_stats(self) -> dict[str, Any]:
        stats = self.middleware.stats
        return {
            "requests": stats.requests,
            "errors": stats.errors,
            "in_flight": stats.in_flight,
            "cancelled": stats.cancelled,
            "seconds": round(stats.latency.sum_s, 6),
            "sessions_open": len(self.middleware.access.sessions),
            "outages": open_circuits(),
            "refusals": rate_limited_calls(),
            "workers": _worker_stats(),
            "loop_held": self._loop_monitor.to_wire() if self._loop_monitor is not None else {},
        }

    async def _answer_sessions(self) -> list[str]:
        """Return the open sessions, and, in a gym on several machines, those whose requests are handled now."""
        return sorted({*self.middleware.access.sessions.names(), *self._busy_sessions.names()})

    async def _answer_metrics(self) -> Response:
        name = self.middleware.access.server_name
        text = exposition(name, await self._answer_stats(), self.middleware.stats.latency)
        return Response(text, media_type=CONTENT_TYPE)

    @abstractmethod
    def setup_webserver(self) -> FastAPI: ...

    def finish_app(self) -> FastAPI:
        """Return the app of `setup_webserver`, with additions that depend on all of its routes."""
        app = self.setup_webserver()
        if app is None:  # an author may return another kind of app
            file, line = locate_function(type(self).setup_webserver)
            raise ConfigErrors(
                [
                    Problem(
                        Location(file, line),
                        f"`setup_webserver` of {type(self).__name__} returned None and no app.",
                        "End it with `return app`.",
                    )
                ]
            )
        return app

    def setup_session_middleware(self, app: FastAPI) -> None:
        """Add sessions to a FastAPI app of the author; the app of `super().setup_webserver()` has them."""
        if not isinstance(app, GymApp):
            set_error_form(app)
            app.add_middleware(_wrap_in_middleware, middleware=self.middleware)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Start and stop the server around the serving of requests."""
        self._follow_moves()
        await self.on_start()
        tasks = [asyncio.create_task(task) for task in self.background_tasks()]
        for task in tasks:
            task.add_done_callback(self._log_failure)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.before_stop()
            await self.on_stop()
            await flush_traces()

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "background work of `%s` has ended: %r", self.config.name, task.get_coro(), exc_info=error
            )

    def _follow_moves(self) -> None:
        """In a gym on several machines: learn which replicas are lost, even without calling any."""
        given = bootstrap.current()
        if given is None or DIRECTORY_KEY not in given.global_config:
            return
        caller = self.server_client.caller()
        assert isinstance(caller, MovingCaller)
        caller.follow_moves()
        self.middleware.access.sessions.has_lost = caller.directory.has_lost

    def background_tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return coroutines that run beside the requests until the server stops."""
        return ()

    async def before_stop(self) -> None:
        """Finish the work that clients still depend on. Runs before `on_stop`."""

    async def on_start(self) -> None:
        """Run in the server's event loop before it accepts connections."""

    async def on_stop(self) -> None:
        """Run in the server's event loop when it stops."""

    @contextmanager
    def monitored_loop(self) -> Iterator[None]:
        """Report handlers that block the event loop, in the log and in `GET /_ng/stats`."""
        self._loop_monitor = LoopMonitor(self.middleware.access.server_name)
        with self._loop_monitor:
            yield

    @classmethod
    def run_webserver(cls) -> None:
        """Serve in this process until SIGTERM. Every `app.py` ends with this call."""
        config = cls.load_config_from_global_config()
        given = bootstrap.current()
        assert given is not None
        output = logging.StreamHandler()
        output.setFormatter(LogFormatter())
        logging.basicConfig(level=logging.INFO, handlers=[output])
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_serve(lambda client: cls(config=config, server_client=client), given))
        except ConfigError:
            traceback.print_exc()
            sys.exit(CANNOT_START)

    @classmethod
    def standalone(cls, **config: Any) -> SimpleServer:
        """Create a server outside of a gym, for tests and notebooks, with defaults for the required options."""
        values = {"host": "127.0.0.1", "port": 0, "entrypoint": "app.py", "name": cls.__name__, **config}
        client = ServerClient(
            head_server_config=BaseServerConfig(host="127.0.0.1", port=0), global_config_dict={}
        )
        return cls(config=cls.config_class().model_validate(values), server_client=client)


def _new_browser_check() -> BrowserCheck | None:
    """Return the check for the hosts of this process's run: bound or listed in `allowed_hosts`.

    None without bound servers: nothing listens, and a test client calls the app by a name of its own.
    """
    given = bootstrap.current()
    bound = set(list_bound_hosts(given.global_config)) if given is not None else set()
    if given is None or not bound:
        return None
    if not all(is_loopback(host) for host in bound):
        bound.add(socket.gethostname())
    return BrowserCheck([IN_MEMORY_HOST, *bound, *(given.global_config.get(ALLOWED_HOSTS) or ())])


def _max_body_mib() -> float:
    given = bootstrap.current()
    configured = given.global_config.get(MAX_BODY_MIB) if given is not None else None
    return DEFAULT_MAX_BODY_MIB if configured is None else float(configured)


def _is_guarded(host: str, global_config: Mapping[str, Any]) -> bool:
    """Return whether every route of a server at `host` requires the run's token."""
    return not is_loopback(host) and not global_config.get(OPEN_NETWORK)


def _wrap_in_middleware(app: ASGIApp, middleware: RequestMiddleware) -> ASGIApp:
    return partial(middleware, app)


def _worker_stats() -> list[dict[str, Any]]:
    """Return the statistics of the worker pools, if the process has any."""
    workers = sys.modules.get("nemo_gym.processes.workers")
    return [asdict(stats) for stats in workers.list_shared_stats()] if workers is not None else []


async def _answer_ok() -> dict[str, str]:
    return {"status": "ok"}


class ClockRequest(BaseModel, extra="forbid"):
    """The body of `POST /_ng/clock`: a run that is paused holds the clock of rollouts."""

    run: str
    seconds: Annotated[float, Field(ge=0, le=60)]


async def _hold_clock(body: ClockRequest) -> dict[str, str]:
    hold_clock(body.run, body.seconds)
    return {"status": "ok"}


async def _serve(make_server: Callable[[ServerClient], SimpleServer], given: Bootstrap) -> None:
    """Build the server and serve the inherited sockets until SIGTERM or SIGINT."""
    config = given.global_config
    client = ServerClient.connect(config, transport=transport_to(config), token=given.run_token)
    server = make_server(client)
    app = server.finish_app()
    raise_file_limit()
    web = GymServer(web_config(app), server_context(config))
    raised: list[int] = []
    try:
        async with server.alive():
            # uvicorn raises the signal again after serving, which would end the process before the server has stopped.
            signal.signal(signal.SIGTERM, lambda number, _: raised.append(number))
            with server.monitored_loop(), collected_rarely():
                await web.serve(sockets=[socket.socket(fileno=fd) for fd in given.listen_fds])
    finally:
        await close_transports()
    for number in raised:  # faster than the end of an interpreter
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
