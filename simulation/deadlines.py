"""Invariants of time: attempts and runs end in time, and no handler works for a disconnected caller."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nemo_gym.rollouts.run.collector import RunLimits
from simulation.events import AttemptId, Event, Kind, Sent
from simulation.faults import AGENT, ASK, ENGINE, GENERATE, RUN, VERIFY
from simulation.scenario import Scenario

_RUN = " ".join(RUN)
_CLOSE = "/close_session"
_EPSILON_S = 0.05
_CALLERS_LEAVE = frozenset({Kind.ANSWERED, Kind.BROKEN, Kind.LEFT})
_ENDS_WITHIN_S = {" ".join(GENERATE): 1.0, " ".join(ASK): 1.0, " ".join(VERIFY): 1.0, _RUN: 6.5}
"""Seconds that a handler may work after its caller disconnected. An agent has to close the session."""
_ENDING_TAKES_S = 1.0
_PREPARING_TAKES_S = 6.0
"""Seconds before the first rollout, in which a run checks whether the servers are reachable."""


@dataclass(slots=True)
class _Attempt:
    sent_at: float
    propagated_s: float
    deadline: float | None = None
    """Set when the agent has the request, which starts the propagated time."""
    is_over: bool = False


class DeadlinesAreKept:
    """No attempt exceeds its time limit, and every call propagates the remaining time."""

    name = "deadlines are kept"

    def __init__(self, scenario: Scenario) -> None:
        self._limit_s = scenario.rollout_timeout_s
        self._attempts: dict[AttemptId, _Attempt] = {}

    def observe(self, event: Event) -> str | None:
        if event.attempt is None:
            return None
        match event.kind:
            case Kind.SENT if event.place == _RUN:
                return self._begin(event.attempt, event.at, event.detail)
            case Kind.SENT:
                return self._call_in_time(event.attempt, event, event.detail)
            case Kind.BEGUN if event.place == _RUN:
                attempt = self._attempts[event.attempt]
                attempt.deadline = event.at + attempt.propagated_s
            case Kind.ANSWERED | Kind.BROKEN | Kind.LEFT if event.place == _RUN:
                return self._end(event.attempt, event.at)
        return None

    def _begin(self, attempt: AttemptId, now: float, sent: Sent) -> str | None:
        earlier = self._attempts.get(attempt)  # no agent accepted it, and it is sent again
        sent_at = earlier.sent_at if earlier is not None else now
        left = sent_at + self._limit_s - now
        if sent.deadline_s is None or sent.deadline_s > left:
            return f"{AGENT} got {sent.deadline_s} s for {attempt}, but {left:.1f} s were left"
        self._attempts[attempt] = _Attempt(sent_at, sent.deadline_s)
        return None

    def _end(self, attempt_id: AttemptId, now: float) -> str | None:
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            return None
        attempt.is_over = True
        took = now - attempt.sent_at
        if took > self._limit_s + _EPSILON_S:
            return f"{attempt_id} took {took:.1f} s, {self._limit_s:g} s are allowed"
        return None

    def _call_in_time(self, attempt_id: AttemptId, event: Event, sent: Sent) -> str | None:
        attempt = self._attempts.get(attempt_id)
        if attempt is None or attempt.deadline is None or attempt.is_over or sent.route == _CLOSE:
            return None
        left = attempt.deadline - event.at
        if left < -_EPSILON_S:
            return f"{sent.sender} called {event.place} {-left:.1f} s after the deadline of {attempt_id}"
        if sent.server == ENGINE:
            return None
        if sent.deadline_s is None:
            return f"{sent.sender} called {event.place} without the deadline of {attempt_id}"
        if sent.deadline_s > left + _EPSILON_S:
            return f"{sent.sender} gave {event.place} {sent.deadline_s:.1f} s, but {left:.1f} s were left"
        return None


@dataclass(frozen=True, slots=True)
class _Handler:
    place: str
    call: int
    attempt: AttemptId | None
    begun_at: float


class NoOrphanedWork:
    """A handler ends soon after its caller has disconnected or its attempt is over."""

    name = "no orphaned work"

    def __init__(self) -> None:
        self._at_work: dict[int, _Handler] = {}
        self._calls_left: dict[int, float] = {}
        self._attempts_over: dict[AttemptId | None, float] = {}
        """Both dictionaries hold the virtual time of the event."""

    def observe(self, event: Event) -> str | None:
        if event.kind is Kind.BEGUN and event.place in _ENDS_WITHIN_S:
            self._at_work[event.call] = _Handler(event.place, event.call, event.attempt, event.at)
        elif event.kind is Kind.DONE:
            self._at_work.pop(event.call, None)
        elif event.kind is Kind.SENT and event.place == _RUN:
            self._attempts_over.pop(event.attempt, None)  # no agent had accepted it, and it is sent again
        elif event.kind in _CALLERS_LEAVE:
            self._calls_left[event.call] = event.at
            if event.place == _RUN:
                self._attempts_over[event.attempt] = event.at
        return next(filter(None, (self._late(handler, event.at) for handler in self._at_work.values())), None)

    def _late(self, handler: _Handler, now: float) -> str | None:
        gone_at = min(
            self._calls_left.get(handler.call, math.inf),
            self._attempts_over.get(handler.attempt, math.inf),
        )
        late_s = now - max(gone_at, handler.begun_at)
        if late_s <= _ENDS_WITHIN_S[handler.place] + _EPSILON_S:
            return None
        return f"{handler.place} (call {handler.call}) still works {late_s:.1f} s after its caller has gone"


class InterruptedRunsEnd:
    """An interrupted run gives rollouts in flight a few seconds. After a second interrupt it ends at once."""

    name = "interrupted runs end"

    def __init__(self) -> None:
        self._due: float | None = None
        self._is_under_way = False

    def observe(self, event: Event) -> str | None:
        late_s = event.at - self._due if self._due is not None else 0.0
        match event.kind:
            case Kind.START | Kind.ENDED:
                self._due, self._is_under_way = None, False
            case Kind.SENT if event.place == _RUN:
                self._is_under_way = True
            case Kind.INTERRUPTED:
                self._report(event.at)
        return f"the run still runs {late_s:.1f} s after it had to end" if late_s > _EPSILON_S else None

    def _report(self, now: float) -> None:
        if self._due is None:
            self._due = now + RunLimits().drain_s + _ENDING_TAKES_S
        else:
            self._due = min(self._due, now + _ENDING_TAKES_S)
        if not self._is_under_way:
            self._due += _PREPARING_TAKES_S
