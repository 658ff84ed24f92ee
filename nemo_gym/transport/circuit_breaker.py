"""Circuit breakers: calls wait while an endpoint is unreachable, instead of failing one by one.

All callers of a transport share one circuit breaker per base URL. A working endpoint has no entry and costs nothing. An
endpoint that fails several times in a row has an *open* circuit: its calls wait, except one probe every few seconds.
The first reply closes the circuit.

    closed ──(failures in a row)──▶ open ──(a probe is due)──▶ half-open ──(a reply)────▶ closed
                                     ▲                             │
                                     └────────(the probe failed)───┘

A probe that is connected and waits for its reply shows that the endpoint listens. So a half-open circuit also closes
when its probe has run longer than the connect timeout.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from nemo_gym.failures import TransportError, build_error
from nemo_gym.transport.calls import Reply, Transport

log = logging.getLogger(__name__)

FAILURES_TO_OPEN = 3
FIRST_PROBE_AFTER_S = 0.25
LONGEST_BETWEEN_PROBES_S = 5.0
PROBE_CONNECTS_WITHIN_S = 6.0
"""More than the connect timeout (`_plain_http.CONNECT_TIMEOUT_S`)."""
POLL_S = 0.25
"""Interval in which a waiting call checks the result of a probe."""
UNREACHABLE_CODES = frozenset({"connect_refused", "connect_timeout"})
UNREACHABLE_STATUSES = frozenset({502, 503})
"""Statuses of a proxy whose engine is gone. A 504 may concern a single request, and a 429 is no outage."""
LOG_AGAIN_AFTER_S = 30.0


class CircuitState(StrEnum):
    """The state of a failing endpoint."""

    CLOSED = "closed"
    """All calls are sent."""
    OPEN = "open"
    """No call is sent until a probe is due."""
    HALF_OPEN = "half_open"
    """Only the probe is sent."""


CIRCUIT_TRANSITIONS: Mapping[CircuitState, frozenset[CircuitState]] = {
    CircuitState.CLOSED: frozenset({CircuitState.OPEN}),
    CircuitState.OPEN: frozenset({CircuitState.HALF_OPEN, CircuitState.CLOSED}),
    CircuitState.HALF_OPEN: frozenset({CircuitState.OPEN, CircuitState.CLOSED}),
}


@dataclass(slots=True)
class CircuitBreaker:
    """The failures of an endpoint since its last reply."""

    url: str
    since: float
    last: TransportError | Reply
    """The last failure."""
    failures: int = 0
    state: CircuitState = CircuitState.CLOSED
    probe_after_s: float = FIRST_PROBE_AFTER_S
    """Seconds from a failed probe to the next."""
    changed_at: float = 0.0

    @property
    def cause(self) -> str:
        """The last failure as text."""
        if isinstance(self.last, Reply):
            return f"{self.url} replies HTTP {self.last.status}"
        return self.last.failure.message

    @property
    def is_open(self) -> bool:
        return self.state is not CircuitState.CLOSED

    def would_admit(self, now: float) -> bool:
        """Return whether a call may be sent now."""
        if self.state is CircuitState.OPEN:
            return now - self.changed_at >= self.probe_after_s
        return self.state is CircuitState.CLOSED or now - self.changed_at >= PROBE_CONNECTS_WITHIN_S

    def admit(self, now: float) -> None:
        """Note that a call is sent: it is the probe of an open circuit, and it closes a half-open one."""
        if self.is_open:
            self._become(
                CircuitState.HALF_OPEN if self.state is CircuitState.OPEN else CircuitState.CLOSED, now
            )

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until a waiting call should check again."""
        if self.state is CircuitState.OPEN:
            return max(0.0, self.probe_after_s - (now - self.changed_at))
        return POLL_S

    def note_failure(self, last: TransportError | Reply, now: float) -> None:
        self.last = last
        self.failures += 1
        if self.state is CircuitState.HALF_OPEN:
            self.probe_after_s = min(LONGEST_BETWEEN_PROBES_S, 2.0 * self.probe_after_s)
            self._become(CircuitState.OPEN, now)
        elif self.state is CircuitState.CLOSED and self.failures >= FAILURES_TO_OPEN:
            self._become(CircuitState.OPEN, now)

    def give_up(self, now: float) -> TransportError | Reply:
        """Return the result of a call that stops waiting.

        The error is not retryable: after the whole budget of a caller, another attempt at the rollout is pointless.
        """
        if isinstance(self.last, Reply):
            return self.last
        tried = f"tried {self.failures} times in {now - self.since:.1f} s"
        failure = self.last.failure
        error = build_error(replace(failure, message=f"{failure.message}; {tried}", retryable=False))
        assert isinstance(error, TransportError)
        return error

    def _become(self, state: CircuitState, now: float) -> None:
        assert state in CIRCUIT_TRANSITIONS[self.state], (self.state, state)
        self.state, self.changed_at = state, now


class CircuitBreakers:
    """The circuit breakers of one transport."""

    def __init__(self) -> None:
        self.by_url: dict[str, CircuitBreaker] = {}
        """Empty while all endpoints work; the hot path checks this."""
        self.refusals = 0
        """Calls that were answered with HTTP 429."""
        self._logged_at: dict[tuple[str, str], float] = {}

    def is_out(self, url: str, now: float) -> bool:
        """Return whether a call to `url` would have to wait."""
        breaker = self.by_url.get(url)
        return breaker is not None and not breaker.would_admit(now)

    def note_failure(self, url: str, last: TransportError | Reply, now: float) -> None:
        """Note a failure that may mean that the endpoint is unreachable."""
        breaker = self.by_url.get(url)
        if breaker is None:
            breaker = self.by_url[url] = CircuitBreaker(url, now, last)
        was_open = breaker.is_open
        breaker.note_failure(last, now)
        if breaker.is_open and not was_open:
            log.warning("%s; calls to it wait until it replies", breaker.cause)

    def note_answer(self, url: str, now: float) -> None:
        """Note that the endpoint replied. Needed only while a breaker exists."""
        breaker = self.by_url.pop(url, None)
        if breaker is not None and breaker.is_open:
            log.warning("%s is reachable again after %.1f s", url, now - breaker.since)

    def forget(self, url: str) -> None:
        """Drop the breaker of an endpoint that is not used any more."""
        self.by_url.pop(url, None)

    def should_log(self, url: str, kind: str, now: float) -> bool:
        """Return whether to log a failure of this kind: the first one, then one every 30 s."""
        logged_at = self._logged_at.get((url, kind))
        if logged_at is not None and now - logged_at < LOG_AGAIN_AFTER_S:
            return False
        self._logged_at[url, kind] = now
        return True

    def to_wire(self, now: float) -> list[dict[str, Any]]:
        """Return the unreachable endpoints, for `GET /_ng/stats`."""
        return [
            {
                "peer": breaker.url,
                "cause": breaker.cause,
                "seconds": round(now - breaker.since, 1),
                "failures": breaker.failures,
            }
            for breaker in self.by_url.values()
        ]


_of_transport: weakref.WeakKeyDictionary[Transport, CircuitBreakers] = weakref.WeakKeyDictionary()


def find_breakers(transport: Transport) -> CircuitBreakers:
    """Return the circuit breakers that all callers of `transport` share."""
    breakers = _of_transport.get(transport)
    if breakers is None:
        breakers = _of_transport[transport] = CircuitBreakers()
    return breakers
