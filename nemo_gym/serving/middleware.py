"""The middleware of every server. Each request passes these steps:

1. By its head alone, requests of foreign web pages are refused (`browser_requests`), and the run's token and the
   session are checked (`session_access`).
2. The complete body is read (`request_bodies`), unless the app has no such route. Handlers of `cancel_on_disconnect`
   routes are cancelled when the client disconnects (`disconnects`).
3. The request is counted; an exception becomes an error envelope (`_error_responses`). The request's context is set:
   calls of the handler carry its session and deadline (`context`).
4. The session's lock is acquired (`session_locks`), and `request.session` gets the session's data.

It is pure ASGI, so it handles requests over sockets (uvicorn) and in memory (`InMemoryTransport`) in the same way.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nemo_gym.clock import monotonic
from nemo_gym.failures import Boundary, GymError, InputError
from nemo_gym.serving._error_responses import error_response
from nemo_gym.serving.browser_requests import BrowserCheck, has_body
from nemo_gym.serving.disconnects import DisconnectWatch
from nemo_gym.serving.own_routes import is_about_server
from nemo_gym.serving.path_counters import PathCounters
from nemo_gym.serving.prometheus import LatencyHistogram
from nemo_gym.serving.request_bodies import BodyReader, require_plain
from nemo_gym.serving.session_access import EXCLUSIVE_ROUTES, Headers, RawHeader, SessionAccess
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.transport.context import (
    BUDGET_HEADER,
    ENDED_HEADER,
    LISTS,
    SPENT_HEADER,
    TOKENS_HEADER,
    RequestContext,
    current_context,
)
from nemo_gym.transport.deadline import DEADLINE_HEADER, Deadline
from nemo_gym.transport.memory import CLIENT_CANCELS
from nemo_gym.transport.request_body import WholeBody
from nemo_gym.transport.whole_response import RawHeaders, send_response

if TYPE_CHECKING:
    from nemo_gym.transport.budget import BudgetLedger

log = logging.getLogger(__name__)

_POLICY_VIOLATION = 1008
_DEADLINE = DEADLINE_HEADER.encode()
_BUDGET, _SPENT = BUDGET_HEADER.encode(), SPENT_HEADER.encode()
_ENDED = ENDED_HEADER.encode()
_TOKENS, _LISTS = TOKENS_HEADER.encode(), LISTS.encode()
_LENGTH = b"content-length"
_CONTENT_ENCODING, _TRANSFER_ENCODING = b"content-encoding", b"transfer-encoding"


@dataclass(slots=True)
class RequestStats:
    """Counters of one server process, answered by `GET /_ng/stats`."""

    requests: int = 0
    errors: int = 0
    cancelled: int = 0
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    paths: PathCounters = field(default_factory=PathCounters)

    @property
    def in_flight(self) -> int:
        return self.requests - sum(self.latency.counts)


@dataclass(slots=True)
class RequestMiddleware:
    """The middleware of one server process."""

    access: SessionAccess
    boundary: Boundary
    cancel_on_disconnect: frozenset[str] = frozenset()
    """Paths whose handlers are cancelled when the client disconnects."""
    policy_paths: frozenset[str] = frozenset()
    """Paths whose handlers run the policy."""
    browsers: BrowserCheck | None = None
    """Refuses requests of foreign web pages; None outside of a run."""
    bodies: BodyReader = field(default_factory=BodyReader)
    stats: RequestStats = field(default_factory=RequestStats)

    async def __call__(
        self,
        app: ASGIApp,
        scope: Scope,
        receive: Receive,
        send: Send,
        has_route: Callable[[Scope], bool] | None = None,
    ) -> None:
        """Handle a request with `app`. Raises only `CancelledError`.

        `has_route`: whether the app has a route for a request. Otherwise it answers without the body.
        """
        if scope["type"] != "http":
            if scope["type"] == "websocket" and not self._admits_websocket(scope):
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
                return
            await app(scope, receive, send)
            return
        responder = _Responder(send)
        admitted: RequestContext | Exception
        whole = receive if type(receive) is WholeBody else None
        try:
            headers = dict(scope["headers"])
            admitted = self._admit(scope, headers, responder)
            if whole is None:
                body = await self._read(scope, headers, receive, send, has_route)
                if body is None:
                    return
                whole = WholeBody(body, receive)
        except Exception as error:  # noqa: BLE001 - `_handle` answers it
            admitted = error
        whole = whole or WholeBody(b"", receive)
        if CLIENT_CANCELS in scope or scope["path"] not in self.cancel_on_disconnect:
            await self._handle(app, scope, whole, responder, admitted)
            return
        teller = getattr(send, "on_disconnect", None)
        watch = DisconnectWatch(receive, lambda: responder.is_complete, teller)
        await watch.run(self._handle(app, scope, WholeBody(whole.body, watch.receive), responder, admitted))

    async def _read(
        self,
        scope: Scope,
        headers: Headers,
        receive: Receive,
        send: Send,
        has_route: Callable[[Scope], bool] | None,
    ) -> bytes | None:
        """Return the body of an admitted request; empty if it has none, or no route would read it."""
        if has_body(headers):
            if has_route is not None and not has_route(scope):
                return b""
            if _CONTENT_ENCODING in headers or _TRANSFER_ENCODING in headers:
                require_plain(scope["headers"])
        if (take := getattr(send, "take_body", None)) is not None and (body := take()) is not None:
            arrived: bytes = body
            return arrived
        is_trusted = self.access.has_token(headers)
        return await self.bodies.read(receive, headers.get(_LENGTH), is_trusted=is_trusted)

    def _admits_websocket(self, scope: Scope) -> bool:
        headers = dict(scope["headers"])
        try:
            if self.browsers is not None:
                self.browsers.check(headers)
            if self.access.guards_every_route:
                self.access.check_token(headers, scope["path"])
        except GymError as error:
            log.warning("a websocket of `%s` was refused: %s", self.access.server_name, error)
            return False
        return True

    async def _handle(
        self,
        app: ASGIApp,
        scope: Scope,
        receive: Receive,
        responder: _Responder,
        admitted: RequestContext | Exception,
    ) -> None:
        path, began = scope["path"], monotonic()
        stats = RequestStats() if is_about_server(scope) else self.stats
        stats.requests += 1
        outer = current_context.get()  # the caller's own, where both are in one task: a call through memory
        try:
            if isinstance(admitted, Exception):
                raise admitted
            current_context.set(context := admitted)
            context.began = began
            if path in EXCLUSIVE_ROUTES:
                async with self.access.sessions.locks.exclusive(context.session):
                    self._provide_session(scope, context, responder)
                    await app(scope, receive, responder)
            elif self._provide_session(scope, context, responder):
                with self.access.sessions.locks.hold_shared(context.session):
                    await app(scope, receive, responder)
            else:
                await app(scope, receive, responder)
        except asyncio.CancelledError:
            stats.cancelled += 1
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: every exception becomes an envelope
            await self._send_error(error, scope, receive, responder)
        finally:
            current_context.set(outer)
            stats.latency.add(seconds := monotonic() - began)
            figures = stats.paths[path]
            figures.calls += 1
            figures.seconds += seconds
            if responder.status >= 400:
                stats.errors += 1
                figures.note_error(responder.status, scope)

    def _admit(self, scope: Scope, headers: Headers, responder: _Responder) -> RequestContext:
        """Return the context of a request. Raises for requests of foreign pages, and as `SessionAccess.admit`."""
        path = scope["path"]
        if self.browsers is not None and CLIENT_CANCELS not in scope:  # no page can send a call in memory
            self.browsers.check(headers)
        named = scope.get("path_params", {}).get("rollout_id")
        session, responder.headers, is_opened, is_new = self.access.admit(path, headers, named)
        if is_opened:
            scope["path_params"] = {"rollout_id": session}
        context = RequestContext(
            session,
            _read_deadline(headers),
            is_verifying=path == "/verify",
            is_policy_acting=path in self.policy_paths,
        )
        if is_new:
            context.models = set()
        if _TOKENS in headers:
            context.takes_lists = headers[_TOKENS] == _LISTS
        if _ENDED in headers and self.access.is_trusted(headers):
            context.ended = headers[_ENDED]
        if _BUDGET in headers:
            from nemo_gym.transport.budget import BudgetLedger  # most runs have none

            context.ledger = scope["ng_ledger"] = BudgetLedger.from_header(headers[_BUDGET])
            responder.before_response = partial(_tell_spent, responder, context.ledger)
        return context

    def _provide_session(self, scope: Scope, context: RequestContext, responder: _Responder) -> bool:
        """Set `request.session`. Returns whether the session is open.

        Data that a handler stores in a session that is not open would be lost with the request. So the response opens
        the session, and its cookie lets the client return to it.
        """
        access = self.access
        data = access.data_for(scope["path"], context)
        if data is not None:
            scope["session"] = data
            return True
        data = scope["session"] = {SESSION_ID_KEY: context.session}
        if access.authenticates_sessions:
            keep, further = partial(access.keep, context, data), responder.before_response
            responder.before_response = keep if further is None else partial(_call_both, keep, further)
        return False

    async def _send_error(
        self, error: Exception, scope: Scope, receive: Receive, responder: _Responder
    ) -> None:
        """Send an error envelope. A response that has begun stays incomplete, so that the client detects the error."""
        server = self.access.server_name
        if responder.status:
            log.error("`%s` %s failed after its response began", server, scope["path"], exc_info=error)
            return
        await error_response(error, server, self.boundary, scope)(scope, receive, responder)


def _call_both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


def _tell_spent(responder: _Responder, ledger: BudgetLedger) -> None:
    """Let the response say what the model calls of its request have spent."""
    responder.headers = (*responder.headers, (_SPENT, ledger.write_spent()))


class _Responder:
    """The ASGI `send` of one request: adds headers to the response and records its status."""

    __slots__ = ("_send", "before_response", "headers", "is_complete", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.headers: tuple[RawHeader, ...] = ()
        self.before_response: Callable[[], None] | None = None
        self.status = 0
        """0 until the response begins."""
        self.is_complete = False

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            message["headers"] = self._begin(message["status"], message.get("headers", ()))
        elif message["type"] == "http.response.body":
            self.is_complete = not message.get("more_body", False)
        return self._send(message)

    def whole(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None]:
        headers = self._begin(status, headers)
        self.is_complete = True
        return send_response(self._send, status, headers, body)

    def _begin(self, status: int, headers: RawHeaders) -> RawHeaders:
        self.status = status
        if self.before_response is not None:
            self.before_response()
        return [*headers, *self.headers] if self.headers else headers


def _read_deadline(headers: Headers) -> Deadline | None:
    """Return the rollout's deadline. Raises `InputError` unless it is a finite number of seconds."""
    given = headers.get(_DEADLINE)
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InputError(
            f"{DEADLINE_HEADER} is {given.decode('latin-1')!r}, not a number of seconds",
            code="invalid_deadline",
            param=DEADLINE_HEADER,
        )
    return Deadline.after(seconds)
