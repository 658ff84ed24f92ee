"""The routes of rollout sessions: `POST /rollout-sessions`, and those below it.

POST   /rollout-sessions                 {options, state?} -> {id}
POST   /rollout-sessions/<id>/tasks      NDJSON; ?end=true ends the input
GET    /rollout-sessions/<id>/groups     NDJSON stream; ?after=<cursor>&reader=<name>&takeover=true
POST   /rollout-sessions/<id>/consumed   {cursors, version?, refused?}
POST   /rollout-sessions/<id>/version    {version, reset?}
POST   /rollout-sessions/<id>/control    {verb, …}: those of runs; cancel and requeue take a key
GET    /rollout-sessions/<id>            counters, and the costs of its policies
GET    /rollout-sessions/<id>/state      JSON for `state`; ?rows=true keeps delivered rows
DELETE /rollout-sessions/<id>            ends it
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nemo_gym import clock
from nemo_gym.failures import InputError
from nemo_gym.head._rollout_request import NDJSON
from nemo_gym.json_objects import parse_json
from nemo_gym.names import ROLLOUT_SESSIONS_ROUTE
from nemo_gym.rollouts.control.clocks import Clocks
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.rollouts.control.verbs import ControlRequest, ControlVerb
from nemo_gym.rollouts.plan.routing import Routing
from nemo_gym.rollouts.plan.task_rows import TaskShaper
from nemo_gym.rollouts.run.agent_attempter import AgentAttempter
from nemo_gym.rollouts.run.required_servers import only_agent
from nemo_gym.rollouts.run.stopping import StopReason
from nemo_gym.rollouts.sessions.book import GroupBook
from nemo_gym.rollouts.sessions.options import SessionOptions
from nemo_gym.rollouts.sessions.session import RolloutSession
from nemo_gym.rollouts.sessions.state import restore_book, write_state
from nemo_gym.rollouts.sessions.tasks import read_tasks
from nemo_gym.tls import read_ca
from nemo_gym.transport import Caller

log = logging.getLogger(__name__)

_CHECK_EVERY_S = 1.0
_Body = TypeVar("_Body", bound=BaseModel)


class ConsumedBody(BaseModel, extra="forbid", strict=True):
    """The body of `POST …/consumed`."""

    cursors: list[int]
    version: int | None = Field(None, ge=0, lt=1 << 53)
    refused: bool = False


class VersionBody(BaseModel, extra="forbid", strict=True):
    """The body of `POST …/version`."""

    version: int = Field(ge=0, lt=1 << 53)
    reset: bool = False


class ControlBody(BaseModel, extra="allow", strict=True):
    """The body of `POST …/control`: a verb, and the fields of `ControlRequest`."""

    verb: Literal["pause", "resume", "drain", "cancel", "requeue", "set"]
    key: str | None = None
    """`cancel`, `requeue`: the key of a task."""


class RolloutSessions:
    """The open sessions of a head server."""

    def __init__(self, caller: Caller, config: Mapping[str, Any], runs: dict[str, RunControl]) -> None:
        """`runs`: those that can be controlled, to which sessions are added while they are open."""
        self._caller = caller
        self._config = config
        self._runs = runs
        self._sessions: dict[str, RolloutSession] = {}
        self._shapers: dict[str, TaskShaper] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def answer(self, request: Request) -> Any:
        """Return the answer to a request below the route. Raises `InputError` for one that is refused."""
        path = request.url.path.removeprefix(ROLLOUT_SESSIONS_ROUTE).strip("/")
        name, _, part = path.partition("/")
        if not name:
            return self._open(await request.body()) if request.method == "POST" else self._list()
        session = self._find(name)
        session.reading.seen_at = clock.monotonic()
        route = (request.method, part)
        handler: Callable[[RolloutSession, Request, bytes], Any] | None = _HANDLERS.get(route)
        if handler is None:
            raise InputError(
                f"a session has no route {request.method} {part or '/'}",
                code="no_route",
                status=404,
                remedy="See POST /rollout-sessions in docs/routes.md.",
            )
        if route == ("POST", "tasks"):
            return session.submit(
                read_tasks(await request.body(), self._shapers[name], self._config),
                ends=request.query_params.get("end") == "true",
            )
        if route == ("DELETE", ""):
            session.stop(StopReason("deleted", "the session was ended by a request"))
        answered = handler(session, request, await request.body())
        return await answered if asyncio.iscoroutine(answered) else answered

    def _list(self) -> dict[str, Any]:
        return {"sessions": [each.describe() for each in self._sessions.values()]}

    def _find(self, name: str) -> RolloutSession:
        if name not in self._sessions:
            raise InputError(
                f"there is no session {name!r}",
                code="no_session",
                status=404,
                remedy="It has ended, or the gym was restarted: open one with the state of the old one.",
            )
        return self._sessions[name]

    def _open(self, body: bytes) -> dict[str, Any]:
        given = _read_object(body)
        state = given.pop("state", None)
        if state is not None and not isinstance(state, Mapping):
            raise _invalid("state: must be an object, as GET …/state answers it")
        options = _validate(SessionOptions, {**((state or {}).get("options") or {}), **given}, strict=False)
        shaper = TaskShaper(
            options.agent_name,
            options.responses_create_params,
            needs_seed=options.num_repeats_add_seed,
            routing=Routing(only_agent=only_agent(self._config)),
        )
        book = GroupBook(options, clock.wall_clock)
        lines = restore_book(book, state, shaper) if state is not None else {}
        attempter = AgentAttempter(self._caller, timeout_s=options.rollout_timeout_s)
        clocks = Clocks(self._caller, self._caller.directory.names(), read_ca(self._config))
        name = f"session-{clock.hex_id()[:12]}"
        session = RolloutSession(name, options, attempter, book=book, clocks=clocks, on_tuned=attempter.tune)
        session.restore(lines, ends=bool(state and state.get("ended")))
        self._sessions[name], self._shapers[name] = session, shaper
        self._runs[name] = session.control
        task = asyncio.create_task(self._run(session), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return session.describe()

    async def _run(self, session: RolloutSession) -> None:
        """Run a session, and forget it when no request for it comes any more."""
        running = asyncio.create_task(session.run())
        try:
            while not session.is_stopped:
                await asyncio.sleep(_CHECK_EVERY_S)
                idle_s = clock.monotonic() - session.reading.seen_at
                if not session.reading.is_active and idle_s > session.options.grace_s:
                    log.warning(
                        "the session %s ends: nobody has asked for it for %.0f s", session.name, idle_s
                    )
                    session.stop()
        finally:
            if not session.is_stopped:
                session.stop()
            await running
            del self._sessions[session.name], self._shapers[session.name], self._runs[session.name]

    async def stop(self) -> None:
        """End all sessions."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


class GroupStream(Response):
    """A response that sends the lines of a session while its client is connected."""

    media_type = NDJSON

    def __init__(self, session: RolloutSession, after: int, reader: str, *, takeover: bool) -> None:
        """Raises `InputError` for a second reader."""
        super().__init__()
        del self.headers["content-length"]
        self._reading = session.reading
        self._number = session.reading.begin(reader, takeover=takeover)
        self._lines = session.read(after, self._number)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_wait_until_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.wait({sending, leaving})
            self._reading.end(self._number)
        if not sending.cancelled():
            sending.result()  # raises its error, which the middleware reports

    async def _send(self, send: Send) -> None:
        async with aclosing(self._lines):
            async for line in self._lines:
                await send({"type": "http.response.body", "body": line + b"\n", "more_body": True})
                await asyncio.sleep(0)  # so that many lines do not hide that the client has left
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _groups(session: RolloutSession, request: Request, body: bytes) -> Response:
    query = request.query_params
    try:
        after = int(query.get("after", "-1"))
    except ValueError as error:
        raise _invalid(f"after: {query['after']!r} is no cursor") from error
    return GroupStream(
        session, after, query.get("reader", "reader"), takeover=query.get("takeover") == "true"
    )


def _consume(session: RolloutSession, request: Request, body: bytes) -> dict[str, Any]:
    asked = _validate(ConsumedBody, _read_object(body))
    return session.consume(asked.cursors, asked.version, refused=asked.refused)


def _set_version(session: RolloutSession, request: Request, body: bytes) -> dict[str, Any]:
    asked = _validate(VersionBody, _read_object(body))
    return session.set_version(asked.version, reset=asked.reset)


async def _control(session: RolloutSession, request: Request, body: bytes) -> dict[str, Any]:
    asked = _validate(ControlBody, _read_object(body))
    fields = asked.model_extra or {}
    if asked.verb in ("cancel", "requeue") and asked.key is not None:
        known = _validate(ControlRequest, fields)
        act = session.cancel if asked.verb == "cancel" else session.requeue
        return {"verb": asked.verb, **act(asked.key, dry_run=known.dry_run)}
    if asked.key is not None:
        raise _invalid(f"`{asked.verb}` has no `key`")
    return await session.handle(ControlVerb(asked.verb), _validate(ControlRequest, fields))


def _state(session: RolloutSession, request: Request, body: bytes) -> Response:
    with_rows = request.query_params.get("rows") == "true"
    return Response(write_state(session, with_rows=with_rows), media_type="application/json")


_HANDLERS: Mapping[tuple[str, str], Callable[[RolloutSession, Request, bytes], Any]] = {
    ("POST", "tasks"): lambda session, request, body: None,
    ("GET", "groups"): _groups,
    ("POST", "consumed"): _consume,
    ("POST", "version"): _set_version,
    ("POST", "control"): _control,
    ("GET", "state"): _state,
    ("GET", ""): lambda session, request, body: session.describe(),
    ("DELETE", ""): lambda session, request, body: session.describe(),
}


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        given = parse_json(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise _invalid(f"the body is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise _invalid("the body must be an object")
    return given


def _validate(model: type[_Body], given: Mapping[str, Any], *, strict: bool = True) -> _Body:
    """Return a body. Raises `InputError` with all of its problems."""
    try:
        return model.model_validate(dict(given), strict=strict)
    except ValidationError as error:
        problems = [_describe_problem(each, model) for each in error.errors()]
        raise _invalid("; ".join(problems)) from error


def _describe_problem(problem: Mapping[str, Any], model: type[BaseModel]) -> str:
    field = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"{field}: there is no such field; fields are {', '.join(model.model_fields)}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{field}: {message}" if field else message


def _invalid(problem: str) -> InputError:
    return InputError(
        f"the request is not valid: {problem}",
        code="invalid_request",
        status=422,
        remedy="See POST /rollout-sessions in docs/routes.md.",
    )
