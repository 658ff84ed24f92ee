"""Which session a request acts in, and whether it may: the run's token, the session header, the signed cookie."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nemo_gym import clock as sources
from nemo_gym.failures import Boundary, GymError
from nemo_gym.names import TOKEN_HEADER
from nemo_gym.serving.sessions import SessionCookies, SessionRegistry
from nemo_gym.transport.context import INCARNATION_HEADER, SESSION_HEADER, RequestContext
from nemo_gym.transport.control import CONTROL_ROUTES

Headers = Mapping[bytes, bytes]
"""Headers of a request as ASGI has them, names in lower case."""
RawHeader = tuple[bytes, bytes]

OPENING_ROUTES = frozenset({"/seed_session", "/reset"})
EXCLUSIVE_ROUTES = OPENING_ROUTES | {"/close_session", "/close"}
"""Routes that set up or free what a session holds. They hold its lock alone, and answer for a closed session too."""
_SESSION, _TOKEN, _INCARNATION = SESSION_HEADER.encode(), TOKEN_HEADER.encode(), INCARNATION_HEADER.encode()
_NAMED_SESSION = f"a session named in {SESSION_HEADER}"


class AccessRefusal(GymError):
    """The request lacks the run's token, or its cookie was not signed by this run."""

    boundary = Boundary.INPUT


class SessionRefusal(GymError):
    """The session is lost or over; a new attempt, which has a session of its own, may succeed."""

    boundary = Boundary.VERIFIER


class Admission(NamedTuple):
    """The session of a request, and the headers that its response gets."""

    session: str
    response_headers: tuple[RawHeader, ...]


@dataclass(slots=True)
class SessionAccess:
    """Admits requests to the sessions of one server process."""

    server_name: str
    cookies: SessionCookies
    sessions: SessionRegistry = field(default_factory=SessionRegistry)
    token: str | None = None
    """The run's token; None outside of a run, where no request needs it."""
    boot: str = field(default_factory=lambda: sources.hex_id()[:12])
    """Names this process's life, so that a caller notices a restart that lost its session."""
    authenticates_sessions: bool = False
    """Whether a session header needs the run's token, and a cookie that this run didn't sign is refused. Other
    servers use a session as a name only, and ignore foreign cookies."""

    def admit(self, path: str, headers: Headers) -> Admission:
        """Raises `AccessRefusal`, and `SessionRefusal` where this process has lost the session by a restart."""
        session: str | None = None
        if _SESSION in headers:
            session = headers[_SESSION].decode("latin-1")
        if path in CONTROL_ROUTES:
            self._check_token(headers, path)
        elif session is not None and self.authenticates_sessions:
            self._check_token(headers, _NAMED_SESSION)
        if session is None and b"cookie" in headers:
            session = self._session_of_cookie(headers[b"cookie"].decode("latin-1"))
            if session is not None and path in OPENING_ROUTES and self.sessions.is_closed(session):
                session = None  # an old cookie opens a new session, not the closed one
        is_new = session is None
        if session is None:
            session = sources.hex_id()
        boot = headers.get(_INCARNATION)
        if boot is not None and boot != self.boot.encode():
            raise self._lost(session)
        if path == "/seed_session":
            return Admission(session, (self._cookie(session), (_INCARNATION, self.boot.encode())))
        return Admission(session, (self._cookie(session),) if is_new else ())

    def data_for(self, path: str, context: RequestContext) -> dict[str, Any]:
        """The data behind `request.session`. Raises `SessionRefusal` for a session that is over."""
        sessions, session = self.sessions, context.session
        if path in OPENING_ROUTES and sessions.was_called_off(session):
            raise self._closed(session)
        if path == "/seed_session":
            return self._open(context)
        if path not in EXCLUSIVE_ROUTES and sessions.is_closed(session):
            raise self._closed(session)
        return sessions.data(session)

    def keep(self, context: RequestContext, data: dict[str, Any]) -> None:
        """Open the request's session with `data`, where its handler has put something into it."""
        if len(data) > 1 and not self.sessions.is_closed(context.session):
            self._open(context).update(data)

    def _open(self, context: RequestContext) -> dict[str, Any]:
        until = context.deadline.at if context.deadline is not None else None
        return self.sessions.open(context.session, until=until)

    def _check_token(self, headers: Headers, purpose: str) -> None:
        if self.token is not None and not hmac.compare_digest(headers.get(_TOKEN, b""), self.token.encode()):
            raise AccessRefusal(
                f"{purpose} of `{self.server_name}` needs the run's token",
                code="token_required",
                status=401,
                remedy="Call it through a ServerClient of this run, or send the header x-ng-token.",
            )

    def _cookie(self, session: str) -> RawHeader:
        return b"set-cookie", self.cookies.header(session).encode("latin-1")

    def _session_of_cookie(self, header: str) -> str | None:
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookies.name:
                session = self.cookies.session_of(value)
                if session is None and self.authenticates_sessions:
                    raise AccessRefusal(
                        "the session cookie was not signed by this run",
                        code="session_forged",
                        status=403,
                        remedy="Open a session with /seed_session.",
                    )
                return session
        return None

    def _lost(self, session: str) -> SessionRefusal:
        return SessionRefusal(
            f"`{self.server_name}` was restarted and has lost session {session}",
            code="session_lost",
            retryable=True,
            peer=self.server_name,
            status=409,
        )

    def _closed(self, session: str) -> SessionRefusal:
        return SessionRefusal(
            f"session {session} of `{self.server_name}` is closed",
            code="session_closed",
            retryable=True,
            peer=self.server_name,
            status=410,
        )
