"""The ledgers of all sessions of a model server, within a memory limit.

A model server is not notified when a session ends. Idle sessions are dropped after `idle_s`, and above the memory
limit the least recently used sessions lose their ids first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from nemo_gym import clock
from nemo_gym.tokens.capture import Capture
from nemo_gym.tokens.histories import History
from nemo_gym.tokens.ids import ID_BYTES, IdSequence
from nemo_gym.tokens.linkage import CallLink, Ledger
from nemo_gym.tokens.spelling import SampledTurns

MOST_SESSIONS = 65_536
IDLE_S = 3600.0


class Ledgers:
    """Ledgers by session. `room_mb` limits the stored ids in megabytes; `idle_s` is in seconds."""

    def __init__(
        self, *, room_mb: float = 1024, idle_s: float = IDLE_S, clock: Callable[[], float] = clock.monotonic
    ) -> None:
        self._most_ids = int(room_mb * 1e6) // ID_BYTES
        self._idle_s = idle_s
        self._clock = clock
        self._ledgers: OrderedDict[str, Ledger] = OrderedDict()
        self._touched: dict[str, float] = {}
        self._ids = 0

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._ledgers)

    @property
    def held_ids(self) -> int:
        return self._ids

    def add(
        self,
        session: str | None,
        capture: Capture,
        history: History | None = None,
        *,
        ends_turn: bool = True,
    ) -> CallLink:
        """Link a call to the earlier calls of its session. A call without a session has no earlier calls."""
        if session is None:
            return Ledger().add(capture, history, ends_turn=ends_turn)
        ledger = self._touch(session)
        self._ids -= len(ledger)
        link = ledger.add(capture, history, ends_turn=ends_turn)
        self._ids += len(ledger)
        self._make_room(session)
        return link

    def add_masked(self, session: str | None) -> int:
        """Count a call without ids, and return its number in the session."""
        return 0 if session is None else self._touch(session).add_masked()

    def find_continued(self, session: str | None, history: History) -> IdSequence | None:
        """Return the ids of the conversation that a request continues verbatim, or None."""
        return None if session is None else self._touch(session).find_continued(history)

    def find_turns(self, session: str | None) -> SampledTurns:
        """Return the sampled answers of a session; none without a session."""
        return SampledTurns() if session is None else self._touch(session).turns

    def drop(self, session: str) -> None:
        """Remove a session."""
        ledger = self._ledgers.pop(session, None)
        self._touched.pop(session, None)
        if ledger is not None:
            self._ids -= len(ledger)

    def _touch(self, session: str) -> Ledger:
        self._touched[session] = self._clock()
        ledger = self._ledgers.setdefault(session, Ledger())
        self._ledgers.move_to_end(session)
        return ledger

    def _make_room(self, current: str) -> None:
        limit = self._clock() - self._idle_s
        while (oldest := next(iter(self._ledgers))) != current and (
            self._touched[oldest] < limit or len(self._ledgers) > MOST_SESSIONS
        ):
            self.drop(oldest)
        while self._ids > self._most_ids and (oldest := next(iter(self._ledgers))) != current:
            ledger = self._ledgers[oldest]
            self._ids -= len(ledger)
            ledger.forget()
            self._ledgers.move_to_end(oldest)  # the next oldest ledger that holds ids comes first
