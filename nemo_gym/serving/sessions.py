"""Sessions of a server: the open sessions with their data, and signed session cookies.

The caller chooses the session id and sends it in a header, or in the cookie of an earlier response; without either, the
server creates one. Opening and closing are idempotent. A sweeper closes abandoned sessions: after the deadline of their
rollout, or without a deadline after hours without a request.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from nemo_gym import clock
from nemo_gym.serving.session_locks import SessionLocks

log = logging.getLogger(__name__)

SESSION_ID_KEY = "session_id"
IDLE_S = 6 * 3600.0
"""Seconds without a request after which a session without a deadline is abandoned."""
CLOSING_TAKES_S = 60.0
"""Seconds after the rollout's deadline in which the agent can still close the session."""
SWEEP_EVERY_S = 10.0
_SIGNATURE_BYTES = 16
_CLOSED_REMEMBERED = 10_000


class SessionCookies:
    """Signs and verifies the session cookie of one server with the run's random key."""

    def __init__(self, server_name: str, key: str, *, is_tls: bool = False) -> None:
        """`is_tls`: browsers send the cookie back only over TLS."""
        self.name = "ng_session_" + "".join(c if c.isalnum() or c in "_-" else "_" for c in server_name)
        self._attributes = f"Path=/; HttpOnly; SameSite=Lax{'; Secure' if is_tls else ''}"
        self._key = hashlib.blake2b(f"{key}\0{server_name}".encode(), digest_size=32).digest()

    def derive_key(self, purpose: str) -> SessionCookies:
        """Return signatures of another purpose, which are not valid for cookies."""
        return SessionCookies(f"{self.name}{purpose}", self._key.hex())

    def _signature(self, session: str) -> str:
        return hashlib.blake2b(session.encode(), key=self._key, digest_size=_SIGNATURE_BYTES).hexdigest()

    def sign(self, session: str) -> str:
        return f"{session}.{self._signature(session)}"

    def header(self, session: str) -> str:
        return f"{self.name}={self.sign(session)}; {self._attributes}"

    def read_session(self, value: str) -> str | None:
        """Return the session in a cookie's value; None if this run did not sign it."""
        session, _, signature = value.rpartition(".")
        if session and hmac.compare_digest(signature.encode(), self._signature(session).encode()):
            return session
        return None


class SessionRegistry:
    """The sessions of one server process."""

    def __init__(self, *, idle_s: float = IDLE_S, clock: Callable[[], float] = clock.rollout_time) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._open: dict[str, dict[str, Any]] = {}
        self._touched: dict[str, float] = {}
        self._until: dict[str, float] = {}
        self.openers: dict[str, str] = {}
        """Session → the replica that opened it, in a gym whose replicas can be lost."""
        self.has_lost: Callable[[str], bool] = lambda opener: False
        """Returns whether such a replica is lost, so that it will not close its sessions."""
        self._closed: OrderedDict[str, bool] = OrderedDict()
        """Closed session → whether it had been open."""
        self.locks = SessionLocks()

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, session: str) -> bool:
        """Return whether the session is open."""
        return session in self._open

    def open(self, session: str, *, until: float | None = None) -> dict[str, Any]:
        """Open the session and return its data. An open session keeps its data, a closed one starts empty.

        `until`: the rollout's deadline on this registry's clock.
        """
        self._closed.pop(session, None)
        self._touched[session] = self._clock()
        if until is not None:
            self._until[session] = until
        return self._open.setdefault(session, {SESSION_ID_KEY: session})

    def data(self, session: str) -> dict[str, Any] | None:
        """Note a request of the session and return its data; None if it is not open."""
        data = self._open.get(session)
        if data is not None:
            self._touched[session] = self._clock()
        return data

    def close(self, session: str) -> bool:
        """Close the session. Returns whether it was open."""
        self._touched.pop(session, None)
        self._until.pop(session, None)
        was_open = self._open.pop(session, None) is not None
        # A closing may overtake the opening that it ends, which must then not open the session.
        self._closed[session] = was_open or self._closed.get(session, False)
        if len(self._closed) > _CLOSED_REMEMBERED:
            self._closed.popitem(last=False)
        return was_open

    def is_closed(self, session: str) -> bool:
        """Return whether the session is among the last 10,000 closed ones."""
        return session in self._closed

    def was_closed_before_opening(self, session: str) -> bool:
        """Return whether the close request arrived before the open request."""
        return self._closed.get(session) is False

    def names(self) -> list[str]:
        """Return the open sessions."""
        return list(self._open)

    def list_abandoned(self) -> list[str]:
        """Return the open sessions that no agent will close."""
        now = self._clock()
        self.openers = {session: opener for session, opener in self.openers.items() if session in self._open}
        return [session for session, touched in self._touched.items() if self._is_over(session, touched, now)]

    def _is_over(self, session: str, touched: float, now: float) -> bool:
        if session in self.openers and self.has_lost(self.openers[session]):
            return True
        until = self._until.get(session)
        return now > touched + self._idle_s if until is None else now > until + CLOSING_TAKES_S


Close = Callable[[str], Awaitable[object]]
"""Frees the state of a session."""


async def sweep_abandoned(
    sessions: SessionRegistry,
    close: Close,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Close abandoned sessions periodically, until cancelled."""
    while True:
        await sleep(SWEEP_EVERY_S)
        abandoned = sessions.list_abandoned()
        if abandoned:
            log.warning("closing %d abandoned sessions, %s among them", len(abandoned), abandoned[0])
        await close_sessions(sessions, abandoned, close)


async def close_sessions(sessions: SessionRegistry, names: list[str], close: Close) -> None:
    """Close the open sessions of `names`. An error is logged and does not stop the others."""
    for session in names:
        if sessions.close(session):
            try:
                await close(session)
            except Exception:
                log.exception("closing session %s failed", session)
