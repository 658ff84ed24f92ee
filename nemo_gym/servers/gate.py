"""The gate of a server: what every request passes before and after its handler.

It opens the request's context (session, deadline), checks the run's token on control routes, answers failures in the
one envelope, and counts. `Gate.answer` is the gate itself; `Gate.serve` puts it around an ASGI app: there it also reads
the body, and cancels a handler whose caller went away.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
from collections.abc import Coroutine, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import orjson
from starlette.responses import Response

from nemo_gym import sources
from nemo_gym.failures import Boundary, Failure, GymError, InputError
from nemo_gym.names import TOKEN_HEADER
from nemo_gym.servers.context import (
    BOOT_HEADER,
    SESSION_HEADER,
    RequestContext,
    current_context,
)
from nemo_gym.servers.control import CONTROL_ROUTES
from nemo_gym.servers.inbound import App, Handle, Inbound, JsonAnswer, Receive, Scope, Send
from nemo_gym.servers.sessions import SessionCookies, SessionRegistry
from nemo_gym.transport.deadline import DEADLINE_HEADER, Deadline

log = logging.getLogger(__name__)

OPENING_ROUTES = frozenset({"/seed_session", "/reset"})
_NEEDS_SESSION_ALONE = OPENING_ROUTES | {"/close_session", "/close"}
"""Routes that set up or free what a session holds, while nobody works with it."""
_ANSWERED_AFTER_CLOSING = OPENING_ROUTES | {"/close_session", "/close"}
_ABOUT_SERVER = "/_ng/"
_NAMED_SESSION = f"a session named in {SESSION_HEADER}"
_BOOT = BOOT_HEADER.encode()
_WATCHED_AFTER_S = 0.02
"""How long a handler runs before anybody looks whether its caller is still there."""


@dataclass(slots=True)
class GateStats:
    """Figures of one server process, answered by `GET /_ng/stats`."""

    requests: int = 0
    errors: int = 0
    in_flight: int = 0
    cancelled: int = 0


@dataclass(slots=True)
class Gate:
    """What all requests to one server share."""

    server_name: str
    boundary: Boundary
    cookies: SessionCookies
    sessions: SessionRegistry = field(default_factory=SessionRegistry)
    token: str | None = None
    boot: str = field(default_factory=lambda: sources.hex_id()[:12])
    watched: frozenset[str] = frozenset()
    """Paths whose handlers are cancelled when the caller goes away."""
    acting: frozenset[str] = frozenset()
    """Paths whose handlers let the policy act."""
    guards_sessions: bool = False
    """Whether a session is believed only with the run's token, and a cookie that this run didn't sign is refused.
    Elsewhere a session is no more than a name, and a foreign cookie is another server's business."""
    stats: GateStats = field(default_factory=GateStats)

    async def answer(self, inbound: Inbound, handle: Handle) -> Response | None:
        """What `handle` answers, with the session's cookie where it needs one; its failure as an envelope.

        None where the answer went out by `inbound.send`. Raises nothing but cancellation.
        """
        # Whoever only looks at a server is not counted: neither watching it nor its start changes its figures.
        path, turns = inbound.path, self.sessions.turns
        stats = GateStats() if path == "/" or path.startswith(_ABOUT_SERVER) else self.stats
        stats.requests += 1
        stats.in_flight += 1
        try:
            if path in CONTROL_ROUTES:
                self._check_token(inbound, path)
            context = self._open_context(inbound)
            reset = current_context.set(context)
            try:
                if path in _NEEDS_SESSION_ALONE:
                    async with turns.alone(context.session):
                        self._hand_session(inbound, context)
                        answer = await handle(inbound)
                elif self._hand_session(inbound, context):
                    turn = turns.begin(context.session)
                    try:
                        answer = await handle(inbound)
                    finally:
                        turns.end(context.session, turn)
                else:
                    answer = await handle(inbound)
            finally:
                current_context.reset(reset)
        except asyncio.CancelledError:
            stats.cancelled += 1
            raise
        except GymError as error:
            answer = self._refusal(inbound, error.failure)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever a handler raises becomes an envelope
            answer = self._refusal(inbound, self._failure_of(error))
        finally:
            stats.in_flight -= 1
        if answer is not None:
            answer.raw_headers += inbound.begin(answer.status_code)
        if inbound.status >= 400:
            stats.errors += 1
        return answer

    async def serve(self, handle: Handle, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI: answer a request by `handle`, and cancel that when the caller goes away."""
        body = await _read_body(receive)
        if body is None:
            return
        if scope["path"] in self.watched:
            watched = _WatchedCaller(receive, send)
            answering = self.answer(Inbound.of_scope(scope, body, watched), handle)
            answer = await watched.unless_gone(answering)
        else:
            answer = await self.answer(Inbound.of_scope(scope, body, _Caller(receive, send)), handle)
        if answer is not None:
            await answer(scope, receive, send)

    def _check_token(self, inbound: Inbound, what: str) -> None:
        if self.token is None or inbound.has_token:
            return
        given = inbound.headers.get(TOKEN_HEADER)
        inbound.has_token = given is not None and hmac.compare_digest(given.encode(), self.token.encode())
        if not inbound.has_token:
            raise GateRefusal(
                f"{what} of `{self.server_name}` needs the run's token",
                code="token_required",
                status=401,
                remedy="Call it through a ServerClient of this run, or send the header x-ng-token.",
            )

    def _open_context(self, inbound: Inbound) -> RequestContext:
        """The request's context. An answer that tells the caller about its session is given the headers for it."""
        path, headers = inbound.path, inbound.headers
        session = headers.get(SESSION_HEADER)
        if session is None:
            session = self._session_of_cookie(headers.get("cookie"))
            if session is not None and path in OPENING_ROUTES and self.sessions.is_closed(session):
                session = None  # an old cookie opens a session of its own, not the one that is over
        elif self.guards_sessions:
            self._check_token(inbound, _NAMED_SESSION)
        is_new = session is None
        if session is None:
            session = sources.hex_id()
        boot = headers.get(BOOT_HEADER)
        if boot is not None and boot != self.boot:
            raise SessionRefusal(
                f"`{self.server_name}` was restarted and has lost session {session}",
                code="session_lost",
                retryable=True,
                peer=self.server_name,
                status=409,
            )
        context = RequestContext(session, _deadline_of(headers), acting=path in self.acting)
        if path == "/seed_session":
            inbound.answer_headers = (self._cookie(session), (_BOOT, self.boot.encode()))
        elif is_new:
            inbound.answer_headers = (self._cookie(session),)
        return context

    def _cookie(self, session: str) -> tuple[bytes, bytes]:
        return b"set-cookie", self.cookies.header(session).encode("latin-1")

    def _hand_session(self, inbound: Inbound, context: RequestContext) -> bool:
        """Give the handler its `request.session`; whether that is open.

        What a handler puts into one that is not open would be gone by the next request. So that opens it: with the
        answer, whose cookie brings the caller back to it.
        """
        inbound.session = data = self._session_data(inbound.path, context)
        is_open = context.session in self.sessions
        if self.guards_sessions and not is_open:
            inbound.before_answer = partial(self._keep, context, data)
        return is_open

    def _keep(self, context: RequestContext, data: dict[str, Any]) -> None:
        if len(data) > 1 and not self.sessions.is_closed(context.session):
            self._open_session(context).update(data)

    def _open_session(self, context: RequestContext) -> dict[str, Any]:
        until = context.deadline.at if context.deadline is not None else None
        return self.sessions.open(context.session, until=until)

    def _session_data(self, path: str, context: RequestContext) -> dict[str, Any]:
        """What `request.session` holds. Raises `SessionRefusal` for a session that is over."""
        if path in OPENING_ROUTES and self.sessions.was_called_off(context.session):
            raise self._session_closed(context.session)
        if path == "/seed_session":
            return self._open_session(context)
        if self.sessions.is_closed(context.session) and path not in _ANSWERED_AFTER_CLOSING:
            raise self._session_closed(context.session)
        return self.sessions.data(context.session)

    def _session_closed(self, session: str) -> SessionRefusal:
        return SessionRefusal(
            f"session {session} of `{self.server_name}` is closed",
            code="session_closed",
            retryable=True,
            peer=self.server_name,
            status=410,
        )

    def _session_of_cookie(self, header: str | None) -> str | None:
        if header is None:
            return None
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookies.name:
                session = self.cookies.session_of(value)
                if session is None and self.guards_sessions:
                    raise GateRefusal(
                        "the session cookie was not signed by this run",
                        code="session_forged",
                        status=403,
                        remedy="Open a session with /seed_session.",
                    )
                return session
        return None

    def _failure_of(self, error: Exception) -> Failure:
        """What an unexpected exception becomes; an upstream's failure in it is passed on with its root cause."""
        upstream = getattr(error, "response_content", None)
        if isinstance(upstream, bytes | str) and upstream:
            try:
                passed_on = Failure.from_wire(orjson.loads(upstream), status=getattr(error, "status", None))
            except orjson.JSONDecodeError:
                passed_on = None
            if passed_on is not None:
                return passed_on.passed_on_by(self.server_name)
        log.error("unhandled error in `%s`", self.server_name, exc_info=error)
        return Failure(
            boundary=self.boundary,
            code="unhandled_exception",
            message=f"{type(error).__name__}: {error}",
            peer=self.server_name,
            remedy=f"See the log of `{self.server_name}` for the traceback.",
            status=500,
        )

    def _refusal(self, inbound: Inbound, failure: Failure) -> Response | None:
        """The envelope of a failure; None where half an answer is out, which is left unfinished."""
        if inbound.status:
            log.error("`%s` %s failed after its answer began: %s",
                      self.server_name, inbound.path, failure.message)  # fmt: skip
            return None
        if failure.peer is None:
            failure = replace(failure, peer=self.server_name)
        return JsonAnswer(orjson.dumps(failure.to_wire()), failure.http_status, _advice_on(failure))


def handle_by(inner: App) -> Handle:
    """What has an ASGI app answer requests."""

    async def handle(inbound: Inbound) -> None:
        await inner(inbound.scope(), inbound.receive, inbound.send)

    return handle


class GateRefusal(GymError):
    boundary = Boundary.INPUT


class SessionRefusal(GymError):
    """The session is lost or over; a new attempt, which has a session of its own, may succeed."""

    boundary = Boundary.VERIFIER


def _advice_on(failure: Failure) -> dict[str, str]:
    """Headers for clients that try again by the status alone, as OpenAI's do: whether and when that is of use."""
    if not failure.retryable:
        return {"x-should-retry": "false"}
    if failure.retry_after_s is None:
        return {}
    return {"retry-after": str(math.ceil(failure.retry_after_s))}


def _deadline_of(headers: Mapping[str, str]) -> Deadline | None:
    left = headers.get(DEADLINE_HEADER)
    if left is None:
        return None
    try:
        seconds = float(left)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InputError(
            f"{DEADLINE_HEADER} is {left!r}, not a number of seconds",
            code="invalid_deadline",
            param=DEADLINE_HEADER,
        )
    return Deadline.after(seconds)


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body of a request; None where the caller went away meanwhile."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    chunks = [body]
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
    return b"".join(chunks)


class _Caller(NamedTuple):
    """ASGI's way back to the caller."""

    receive: Receive
    send: Send


class _WatchedCaller:
    """A caller whose request is given up when it goes away.

    Most handlers are done before anybody has to look: the watch begins with those that take a moment.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._gone = asyncio.Event()
        self._is_finished = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        # Who has its whole answer may go: what the handler does afterwards is not given up.
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._is_finished = True
        await self._send(message)

    async def receive(self) -> MutableMapping[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def unless_gone(self, answering: Coroutine[Any, Any, Response | None]) -> Response | None:
        """What `answering` gives; None, and it is cancelled, when the caller goes away."""
        handler = asyncio.current_task()
        assert handler is not None
        watcher: asyncio.Task[None] | None = None

        async def watch() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass
            self._gone.set()
            if not self._is_finished:
                handler.cancel()

        def begin() -> None:
            nonlocal watcher
            watcher = asyncio.ensure_future(watch())

        beginning = asyncio.get_running_loop().call_later(_WATCHED_AFTER_S, begin)
        try:
            return await answering
        except asyncio.CancelledError:
            if not self._gone.is_set():
                raise
            handler.uncancel()
            return None
        finally:
            self._is_finished = True
            beginning.cancel()
            if watcher is not None:
                watcher.cancel()
