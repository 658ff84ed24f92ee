"""The invariant that a session is closed exactly once, by either protocol, on every path."""

from __future__ import annotations

from collections import Counter

from simulation.events import Event, Kind
from simulation.faults import ENVIRONMENT


class SessionsAreClosedOnce:
    """What opening a session set up is freed once: by the session, and by its opener's name if it has one.

    A crash of the environment frees its sessions, and no session may be closed again by a later request or a sweeper.
    """

    name = "sessions are closed once"

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Forget the sessions: those of a crashed replica are gone, and a new start knows none of them."""
        self._open: dict[Kind, set[str]] = {Kind.OPENED: set(), Kind.NAMED: set()}
        self._closings: dict[Kind, Counter[str]] = {Kind.CLOSED: Counter(), Kind.UNNAMED: Counter()}

    def observe(self, event: Event) -> str | None:
        match event.kind:
            case Kind.OPENED | Kind.NAMED:
                self._open[event.kind].add(event.detail)
            case Kind.CLOSED:
                return self._close(event, Kind.OPENED)
            case Kind.UNNAMED:
                return self._close(event, Kind.NAMED)
            case Kind.CRASHED | Kind.FENCED if event.place == ENVIRONMENT:
                self._forget()
            case Kind.OVER if self._open[Kind.NAMED]:
                return f"the session {min(self._open[Kind.NAMED])} was never closed by its name"
        return None

    def _close(self, event: Event, opening: Kind) -> str | None:
        session: str = event.detail
        self._open[opening].discard(session)
        self._closings[event.kind][session] += 1
        if self._closings[event.kind][session] > 1:
            return f"the session {session} was closed twice ({event.attempt})"
        return None
