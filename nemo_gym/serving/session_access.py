"""Access control of sessions: the run's token, the session header, and the signed cookie."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from nemo_gym import clock
from nemo_gym.failures import Boundary, GymError
from nemo_gym.names import HEALTH_ROUTES, TOKEN_HEADER
from nemo_gym.serving.sessions import SessionCookies, SessionRegistry
from nemo_gym.transport.context import INCARNATION_HEADER, SESSION_HEADER, RequestContext
from nemo_gym.transport.control import BELOW_CONTROL_ROUTES, CONTROL_ROUTES

Headers = Mapping[bytes, bytes]
"""Request headers in ASGI form, names in lower case."""
RawHeader = tuple[bytes, bytes]

OPENING_ROUTES = frozenset({"/seed_session", "/reset"})
EXCLUSIVE_ROUTES = OPENING_ROUTES | {"/close_session", "/close"}
"""Routes that open or close a session. They hold its lock exclusively, and also work for a closed session."""
_AGENT_SESSIONS = "/v1/agent_sessions"
_API_KEY = b"x-api-key"
_SESSION, _TOKEN, _INCARNATION = SESSION_HEADER.encode(), TOKEN_HEADER.encode(), INCARNATION_HEADER.encode()
_NAMED_SESSION = f"a session named in {SESSION_HEADER}"


class AccessRefusal(GymError):
    """The request lacks the run's token, or its cookie was not signed by this run."""

    boundary = Boundary.INPUT


class SessionRefusal(GymError):
    """The session is lost or closed; a new attempt, which has its own session, may succeed."""

    boundary = Boundary.VERIFIER


class RolloutAccess(Protocol):
    """Admits the requests of opened rollouts by their keys (`engines.gateway`)."""

    def find_rollout(self, path: str, headers: Headers, in_path: str | None) -> str | None:
        """Return the rollout of a request, whose URL named the rollout `in_path`; None without an opened rollout.

        Raises `GymError` for a request that is refused.
        """


class Admission(NamedTuple):
    """The session of a request, and the headers to add to the response."""

    session: str
    response_headers: tuple[RawHeader, ...]
    is_opened: bool = False
    """True for a request of an opened rollout, which has no session cookie."""
    is_new: bool = False
    """True if the caller named no session, so that no other request has this one."""


@dataclass(slots=True)
class SessionAccess:
    """Admits requests to the sessions of one server process."""

    server_name: str
    cookies: SessionCookies
    sessions: SessionRegistry = field(default_factory=SessionRegistry)
    token: str | None = None
    """The run's token; None outside of a run, where no route requires it."""
    incarnation: str = field(default_factory=lambda: clock.hex_id()[:12])
    """The id of this process, so that a caller notices a restart that lost its session."""
    control_routes: frozenset[str] = CONTROL_ROUTES
    """The routes that require the token."""
    guards_every_route: bool = False
    """If True, every other route requires it too, because other machines can reach this server."""
    open_routes: frozenset[str] = HEALTH_ROUTES
    """The routes that do not: they answer no data."""
    proofs: dict[str, Callable[[Headers], bool]] = field(default_factory=dict)
    """Routes at which the headers may have another proof → whether they do."""
    authenticates_sessions: bool = False
    """If True, a session header requires the run's token, and a cookie that this run did not sign is refused. Other
    servers use the session as a name only and ignore foreign cookies."""
    rollouts: RolloutAccess | None = None
    """The opened rollouts of a model server."""
    opening_headers: tuple[RawHeader, ...] = ()
    """Headers of the answer to `/seed_session`, beside its cookie and the incarnation."""

    def admit(self, path: str, headers: Headers, rollout: str | None = None) -> Admission:
        """Return the session of a request, whose URL named `rollout`.

        Raises `AccessRefusal`; `SessionRefusal` after a restart of this process.
        """
        opened = self.rollouts.find_rollout(path, headers, rollout) if self.rollouts is not None else None
        if opened is not None:
            return Admission(opened, (), is_opened=True)
        named = headers.get(_SESSION)
        is_control = path in self.control_routes or path.startswith(BELOW_CONTROL_ROUTES)
        if is_control or (self.guards_every_route and not self._is_open(path, headers)):
            self.check_token(headers, path)
        elif self.authenticates_sessions and named is not None:
            self.check_token(headers, _NAMED_SESSION)
        # A client that sends a cookie carries the cookies of the latest response only.
        needs_cookie, is_new = b"cookie" in headers or path == _AGENT_SESSIONS, False
        if named is not None:
            session = named.decode("latin-1")
        elif (given := self._read_cookie_session(path, headers)) is not None:
            session = given
        else:
            session, needs_cookie, is_new = clock.hex_id(), True, True
        incarnation = headers.get(_INCARNATION)
        if incarnation is not None and incarnation != self.incarnation.encode():
            raise self._build_lost_refusal(path)
        if path == "/seed_session":
            headers_of_opening = (self._cookie(session), (_INCARNATION, self.incarnation.encode()))
            return Admission(session, headers_of_opening + self.opening_headers)
        return Admission(session, (self._cookie(session),) if needs_cookie else (), is_new=is_new)

    def _is_open(self, path: str, headers: Headers) -> bool:
        proves = self.proofs.get(path)
        return path in self.open_routes or (proves is not None and proves(headers))

    def data_for(self, path: str, context: RequestContext) -> dict[str, Any] | None:
        """Return the data of an open session, otherwise None. Raises `SessionRefusal` for a closed session."""
        sessions, session = self.sessions, context.session
        if path in OPENING_ROUTES and sessions.was_closed_before_opening(session):
            raise self._build_closed_refusal(session)
        if path == "/seed_session":
            return self._open(context)
        data = sessions.data(session)
        if data is None and path not in EXCLUSIVE_ROUTES and sessions.is_closed(session):
            raise self._build_closed_refusal(session)
        return data

    def keep(self, context: RequestContext, data: dict[str, Any]) -> None:
        """Open the request's session with `data`, if the handler stored something in it."""
        if len(data) > 1 and not self.sessions.is_closed(context.session):
            self._open(context).update(data)

    def _open(self, context: RequestContext) -> dict[str, Any]:
        until = context.deadline.at if context.deadline is not None else None
        return self.sessions.open(context.session, until=until)

    def check_token(self, headers: Headers, purpose: str) -> None:
        """Raise `AccessRefusal` for a request without the run's token, in its own header or as an API key."""
        if not self.is_trusted(headers):
            raise AccessRefusal(
                f"{purpose} of `{self.server_name}` requires the run's token",
                code="token_required",
                status=401,
                remedy="Call it with a ServerClient of this run, or send the token in x-ng-token. A program that"
                " an agent starts sends it as its API key (Authorization: Bearer, or x-api-key).",
            )

    def is_trusted(self, headers: Headers) -> bool:
        """Return whether a request has the run's token, if there is one."""
        return self.token is None or self.has_token(headers)

    def has_token(self, headers: Headers) -> bool:
        """Return whether a request has the run's token."""
        if self.token is None:
            return False
        token = self.token.encode()
        if hmac.compare_digest(headers.get(_TOKEN, b""), token):  # that of our own clients
            return True
        bearer = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        return hmac.compare_digest(headers.get(_API_KEY, b""), token) or hmac.compare_digest(bearer, token)

    def _cookie(self, session: str) -> RawHeader:
        return b"set-cookie", self.cookies.header(session).encode("latin-1")

    def _read_cookie_session(self, path: str, headers: Headers) -> str | None:
        for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
            name, _, value = part.strip().partition("=")
            if name != self.cookies.name:
                continue
            session = self.cookies.read_session(value)
            if session is None and self.authenticates_sessions:
                raise AccessRefusal(
                    "the session cookie was not signed by this run",
                    code="session_forged",
                    status=403,
                    remedy="Open a session with /seed_session.",
                )
            if session is not None and path in OPENING_ROUTES and self.sessions.is_closed(session):
                return None  # an old cookie opens a new session and not the closed one
            return session
        return None

    def _build_lost_refusal(self, path: str) -> SessionRefusal:
        message = f"`{self.server_name}` was restarted before {path} was called, and has lost the session"
        remedy = "The server's log says why it ended; many rollouts at once may be too much for it."
        return self._refusal(message, "session_lost", 409, remedy)

    def _build_closed_refusal(self, session: str) -> SessionRefusal:
        message = f"session {session} of `{self.server_name}` is closed"
        return self._refusal(message, "session_closed", 410)

    def _refusal(self, message: str, code: str, status: int, remedy: str | None = None) -> SessionRefusal:
        peer = self.server_name
        return SessionRefusal(message, code=code, retryable=True, peer=peer, status=status, remedy=remedy)
