"""Sessions of a resources server: open ones with their data, and the signed cookie for clients that know no header.

Identity belongs to the caller: the id arrives in a header (or in the cookie of an earlier answer) and is minted
here only when there is neither. Opening and closing are idempotent. What nobody closes is swept: a session whose
rollout is past its deadline, and one without a deadline that nobody has used for hours.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from nemo_gym import clock as sources
from nemo_gym.serving._session_locks import SessionLocks

log = logging.getLogger(__name__)

SESSION_ID_KEY = "session_id"
IDLE_S = 6 * 3600.0
"""How long a session without a deadline may be left alone."""
CLOSING_TAKES_S = 60.0
"""How long after the rollout's deadline its agent may still close the session."""
SWEEP_EVERY_S = 10.0
_SIGNATURE_BYTES = 16
_CLOSED_REMEMBERED = 10_000


class SessionCookies:
    """Signs and reads the session cookie of one server, under the run's random key."""

    def __init__(self, server_name: str, key: str) -> None:
        self.name = "ng_session_" + "".join(c if c.isalnum() or c in "_-" else "_" for c in server_name)
        self._key = hashlib.blake2b(f"{key}\0{server_name}".encode(), digest_size=32).digest()

    def _signature(self, session: str) -> str:
        return hashlib.blake2b(session.encode(), key=self._key, digest_size=_SIGNATURE_BYTES).hexdigest()

    def sign(self, session: str) -> str:
        return f"{session}.{self._signature(session)}"

    def header(self, session: str) -> str:
        return f"{self.name}={self.sign(session)}; Path=/; HttpOnly; SameSite=Lax"

    def session_of(self, value: str) -> str | None:
        """The session in a cookie's value, or None when it was not signed by this run."""
        session, _, signature = value.rpartition(".")
        if session and hmac.compare_digest(signature.encode(), self._signature(session).encode()):
            return session
        return None


class SessionRegistry:
    """The open sessions of one server process."""

    def __init__(self, *, idle_s: float = IDLE_S, clock: Callable[[], float] = sources.monotonic) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._open: dict[str, dict[str, Any]] = {}
        self._touched: dict[str, float] = {}
        self._until: dict[str, float] = {}
        self._closed: OrderedDict[str, bool] = OrderedDict()
        """With whether they had been open."""
        self.locks = SessionLocks()

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, session: str) -> bool:
        """Whether the session is open."""
        return session in self._open

    def open(self, session: str, *, until: float | None = None) -> dict[str, Any]:
        """The session's data; a session that is open already keeps its data, a closed one opens anew.

        `until`: the instant of its rollout's deadline, on this registry's clock.
        """
        self._closed.pop(session, None)
        self._touched[session] = self._clock()
        if until is not None:
            self._until[session] = until
        return self._open.setdefault(session, {SESSION_ID_KEY: session})

    def data(self, session: str) -> dict[str, Any]:
        """The data behind `request.session`; an unknown session has only its id and is not remembered."""
        data = self._open.get(session)
        if data is None:
            return {SESSION_ID_KEY: session}
        self._touched[session] = self._clock()
        return data

    def close(self, session: str) -> bool:
        """Close; False when it was not open."""
        self._touched.pop(session, None)
        self._until.pop(session, None)
        was_open = self._open.pop(session, None) is not None
        self._closed[session] = was_open or self._closed.get(session, False)
        if len(self._closed) > _CLOSED_REMEMBERED:
            self._closed.popitem(last=False)
        return was_open

    def is_closed(self, session: str) -> bool:
        """Whether the session was closed, as far back as that is remembered."""
        return session in self._closed

    def was_called_off(self, session: str) -> bool:
        """Whether the session was closed before it was ever open: its opening was overtaken on the way."""
        return self._closed.get(session) is False

    def names(self) -> list[str]:
        """The open sessions."""
        return list(self._open)

    def abandoned(self) -> list[str]:
        """The open sessions that nobody will close any more."""
        now = self._clock()
        return [session for session, touched in self._touched.items() if self._is_over(session, touched, now)]

    def _is_over(self, session: str, touched: float, now: float) -> bool:
        until = self._until.get(session)
        return now > touched + self._idle_s if until is None else now > until + CLOSING_TAKES_S


Close = Callable[[str], Awaitable[object]]
"""Frees what a session holds."""


async def sweep_abandoned(
    sessions: SessionRegistry,
    close: Close,
    *,
    every_s: float = SWEEP_EVERY_S,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Close abandoned sessions, for ever."""
    while True:
        await sleep(every_s)
        abandoned = sessions.abandoned()
        if abandoned:
            log.warning(
                "%d sessions were abandoned and are closed, %s among them", len(abandoned), abandoned[0]
            )
        await close_sessions(sessions, abandoned, close)


async def close_sessions(sessions: SessionRegistry, names: list[str], close: Close) -> None:
    """Close those of `names` that are open. One that can't be freed is logged, and keeps no other open."""
    for session in names:
        if sessions.close(session):
            try:
                await close(session)
            except Exception:
                log.exception("closing session %s failed", session)
