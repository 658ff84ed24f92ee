"""The gate of a server: pure ASGI, everything a request passes before and after its handler.

It reads the body, opens the request's context (session, deadline), checks the run's token on control routes,
answers failures in the one envelope, counts, and cancels a handler whose caller went away. A route that needs
none of FastAPI's dependency machinery is answered straight from its table (`nemo_gym/servers/routes.py`).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from nemo_gym import sources
from nemo_gym.failures import Boundary, CancelledFailure, Failure, GymError, InputError
from nemo_gym.servers.context import RequestContext, current_context
from nemo_gym.servers.control import CONTROL_ROUTES
from nemo_gym.servers.sessions import SessionCookies, SessionRegistry
from nemo_gym.transport.deadline import Deadline

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPENING_ROUTES = frozenset({"/seed_session", "/reset"})
_NEEDS_SESSION_ALONE = OPENING_ROUTES | {"/close_session", "/close"}
"""Routes that set up or free what a session holds, while nobody works with it."""
_NO_TURN = nullcontext()
_ANSWERED_AFTER_CLOSING = OPENING_ROUTES | {"/close_session", "/close"}
_ABOUT_SERVER = "/_ng/"
_JSON_HEADERS = (b"content-type", b"application/json")
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

    async def serve(self, inner: App, scope: Scope, receive: Receive, send: Send) -> None:
        # Whoever only looks at a server is not counted: neither watching it nor its start changes its figures.
        path = scope["path"]
        stats = GateStats() if path == "/" or path.startswith(_ABOUT_SERVER) else self.stats
        stats.requests += 1
        stats.in_flight += 1
        answer = _Answer(send)
        try:
            headers = _headers_of_ours(scope["headers"])
            if path in CONTROL_ROUTES:
                self._check_token(headers, path)
            body = await _read_body(receive)
            context, cookie = self._open_context(path, headers)
            answer.extra_headers = self._headers_for(path, context, cookie)
            reset = current_context.set(context)
            try:
                if path in _NEEDS_SESSION_ALONE:
                    async with self.sessions.turns.alone(context.session):
                        scope["session"] = self._session_data(path, context)
                        await inner(scope, _replay(body, receive), answer)
                    return
                scope["session"] = self._session_data(path, context)
                is_open = context.session in self.sessions
                with self.sessions.turns.shared(context.session) if is_open else _NO_TURN:
                    if path in self.watched:
                        await _serve_watched(inner, scope, body, receive, answer)
                    else:
                        await inner(scope, _replay(body, receive), answer)
            finally:
                current_context.reset(reset)
        except asyncio.CancelledError:
            stats.cancelled += 1
            raise
        except GymError as error:
            await self._fail(scope, answer, error.failure)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever a handler raises becomes an envelope
            await self._fail(scope, answer, self._failure_of(error))
        finally:
            stats.in_flight -= 1
            if answer.status >= 400:
                stats.errors += 1

    def _check_token(self, headers: dict[bytes, bytes], what: str) -> None:
        if self.token is None:
            return
        given = headers.get(b"x-ng-token")
        if given is None or not hmac.compare_digest(given, self.token.encode()):
            raise GateRefusal(
                f"{what} of `{self.server_name}` needs the run's token",
                code="token_required",
                status=401,
                remedy="Call it through a ServerClient of this run, or send the header x-ng-token.",
            )

    def _open_context(self, path: str, headers: dict[bytes, bytes]) -> tuple[RequestContext, bool]:
        """The request's context, and whether its answer should set the session cookie."""
        given = headers.get(b"x-ng-session")
        if given is None:
            session = self._session_of_cookie(headers.get(b"cookie"))
            if session is not None and path in OPENING_ROUTES and self.sessions.is_closed(session):
                session = None  # an old cookie opens a session of its own, not the one that is over
        else:
            if self.guards_sessions:
                self._check_token(headers, "a session named in x-ng-session")
            session = given.decode("latin-1")
        minted = session is None
        if session is None:
            session = sources.hex_id()
        boot = headers.get(b"x-ng-boot")
        if boot is not None and boot.decode("latin-1") != self.boot:
            raise SessionRefusal(
                f"`{self.server_name}` was restarted and has lost session {session}",
                code="session_lost",
                retryable=True,
                peer=self.server_name,
                status=409,
            )
        context = RequestContext(session, _deadline_of(headers), acting=path in self.acting)
        return context, minted or path == "/seed_session"

    def _session_data(self, path: str, context: RequestContext) -> dict[str, Any]:
        """What `request.session` holds. Raises `SessionRefusal` for a session that is over."""
        if path in OPENING_ROUTES and self.sessions.was_called_off(context.session):
            raise self._session_closed(context.session)
        if path == "/seed_session":
            until = context.deadline.at if context.deadline is not None else None
            return self.sessions.open(context.session, until=until)
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

    def _session_of_cookie(self, header: bytes | None) -> str | None:
        if header is None:
            return None
        for part in header.decode("latin-1").split(";"):
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

    def _headers_for(
        self, path: str, context: RequestContext, cookie: bool
    ) -> tuple[tuple[bytes, bytes], ...]:
        if not cookie:
            return ()
        session_cookie = (b"set-cookie", self.cookies.header(context.session).encode("latin-1"))
        if path == "/seed_session":
            return (session_cookie, (b"x-ng-boot", self.boot.encode()))
        return (session_cookie,)

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

    async def _fail(self, scope: Scope, answer: _Answer, failure: Failure) -> None:
        if answer.status:
            # Half an answer is out: leaving it unfinished makes the server close the connection.
            log.error(
                "`%s` %s failed after its answer began: %s", self.server_name, scope["path"], failure.message
            )
            return
        if failure.peer is None:
            failure = replace(failure, peer=self.server_name)
        body = orjson.dumps(failure.to_wire())
        await send_json(answer, failure.http_status, body, _advice_on(failure))


class GateRefusal(GymError):
    boundary = Boundary.INPUT


class SessionRefusal(GymError):
    """The session is lost or over; a new attempt, which has a session of its own, may succeed."""

    boundary = Boundary.VERIFIER


class _Answer:
    """The `send` of one request: remembers the status and adds the gate's headers."""

    __slots__ = ("_send", "extra_headers", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.extra_headers: tuple[tuple[bytes, bytes], ...] = ()

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.extra_headers:
                message["headers"] = [*message.get("headers", ()), *self.extra_headers]
        await self._send(message)


async def send_json(
    send: Send | _Answer, status: int, body: bytes, more_headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    headers = [_JSON_HEADERS, (b"content-length", str(len(body)).encode()), *more_headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _advice_on(failure: Failure) -> list[tuple[bytes, bytes]]:
    """Headers for clients that try again by the status alone, as OpenAI's do: whether and when that is of use."""
    if not failure.retryable:
        return [(b"x-should-retry", b"false")]
    if failure.retry_after_s is None:
        return []
    return [(b"retry-after", str(math.ceil(failure.retry_after_s)).encode())]


_OURS = frozenset({b"x-ng-session", b"x-ng-deadline", b"x-ng-token", b"x-ng-boot", b"cookie"})


def _headers_of_ours(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    return {name: value for name, value in headers if name in _OURS}


def _deadline_of(headers: dict[bytes, bytes]) -> Deadline | None:
    left = headers.get(b"x-ng-deadline")
    if left is None:
        return None
    try:
        seconds = float(left)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InputError(
            f"x-ng-deadline is {left!r}, not a number of seconds",
            code="invalid_deadline",
            param="x-ng-deadline",
        )
    return Deadline.after(seconds)


async def _read_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    chunks = [body]
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CancelledFailure("the caller went away while sending its request", code="caller_gone")
        chunks.append(message.get("body", b""))
    return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands out the body that has been read, and then what the server has to say."""
    pending = True

    async def replayed() -> MutableMapping[str, Any]:
        nonlocal pending
        if pending:
            pending = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replayed


async def _serve_watched(inner: App, scope: Scope, body: bytes, receive: Receive, answer: _Answer) -> None:
    """Run the handler, and cancel it when the caller goes away.

    Most handlers are done before anybody has to look: the watch begins with those that take a moment.
    """
    gone = asyncio.Event()
    handler = asyncio.current_task()
    watcher: asyncio.Task[None] | None = None
    finished = False

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        if not finished and handler is not None:
            handler.cancel()

    def begin() -> None:
        nonlocal watcher
        watcher = asyncio.ensure_future(watch())

    async def receive_after_body() -> MutableMapping[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    beginning = asyncio.get_running_loop().call_later(_WATCHED_AFTER_S, begin)
    try:
        await inner(scope, _replay(body, receive_after_body), answer)
    except asyncio.CancelledError as error:
        if not gone.is_set():
            raise
        if handler is not None:
            handler.uncancel()
        raise CancelledFailure("the caller went away", code="caller_gone") from error
    finally:
        finished = True
        beginning.cancel()
        if watcher is not None:
            watcher.cancel()
