"""Circuit breakers: an endpoint that is out of reach is found out once, not by every call.

A circuit breaker per base URL, shared by all callers of a transport. An endpoint that works has no entry, so that a
call to it costs nothing here. One that fails several times in a row is *open*: calls to it wait instead of trying,
but for one probe every few seconds. The first answer closes it again.

    closed ──(failures in a row)──▶ open ──(a probe is due)──▶ half-open ──(an answer)──▶ closed
                                     ▲                             │
                                     └────────(the probe failed)───┘

A probe that has connected and waits for its answer shows that the endpoint listens, so a half-open circuit also
closes when its probe has not failed for longer than connecting may take.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from nemo_gym.failures import TransportError, error_of
from nemo_gym.transport.calls import Reply, Transport

log = logging.getLogger(__name__)

FAILURES_TO_OPEN = 3
FIRST_PROBE_AFTER_S = 0.25
LONGEST_BETWEEN_PROBES_S = 5.0
PROBE_CONNECTS_WITHIN_S = 6.0
"""More than a connection may take (`http.CONNECT_TIMEOUT_S`)."""
LOOK_AGAIN_S = 0.25
"""How often a waiting call looks whether a probe has come to something."""
UNREACHABLE_CODES = frozenset({"connect_refused", "connect_timeout"})
UNREACHABLE_STATUSES = frozenset({502, 503})
"""Answers of a proxy whose engine is gone. A 504 may be about one request alone, a 429 is no outage."""
LOG_AGAIN_AFTER_S = 30.0


class CircuitState(StrEnum):
    """How an endpoint that failed is treated."""

    CLOSED = "closed"
    """It gets every call."""
    OPEN = "open"
    """It gets none until a probe is due."""
    HALF_OPEN = "half_open"
    """It has a probe, and gets nothing else."""


CIRCUIT_TRANSITIONS: Mapping[CircuitState, frozenset[CircuitState]] = {
    CircuitState.CLOSED: frozenset({CircuitState.OPEN}),
    CircuitState.OPEN: frozenset({CircuitState.HALF_OPEN, CircuitState.CLOSED}),
    CircuitState.HALF_OPEN: frozenset({CircuitState.OPEN, CircuitState.CLOSED}),
}


@dataclass(slots=True)
class CircuitBreaker:
    """An endpoint's failures since its last answer."""

    url: str
    since: float
    last: TransportError | Reply
    """The last failure."""
    failures: int = 0
    state: CircuitState = CircuitState.CLOSED
    waits_s: float = FIRST_PROBE_AFTER_S
    """From a failed probe to the next."""
    changed_at: float = 0.0

    @property
    def cause(self) -> str:
        """Why the endpoint is out, in words."""
        if isinstance(self.last, Reply):
            return f"{self.url} answers HTTP {self.last.status}"
        return self.last.failure.message

    @property
    def is_open(self) -> bool:
        return self.state is not CircuitState.CLOSED

    def would_admit(self, now: float) -> bool:
        """Whether a call may be sent to the endpoint now."""
        if self.state is CircuitState.OPEN:
            return now - self.changed_at >= self.waits_s
        return self.state is CircuitState.CLOSED or now - self.changed_at >= PROBE_CONNECTS_WITHIN_S

    def admit(self, now: float) -> None:
        """Note that a call is sent: it becomes the probe of an open circuit, and proof that a probe has connected."""
        if self.is_open:
            self._become(
                CircuitState.HALF_OPEN if self.state is CircuitState.OPEN else CircuitState.CLOSED, now
            )

    def seconds_to_wait(self, now: float) -> float:
        """From now to when a waiting call should look again."""
        if self.state is CircuitState.OPEN:
            return max(0.0, self.waits_s - (now - self.changed_at))
        return LOOK_AGAIN_S

    def note_failure(self, last: TransportError | Reply, now: float) -> None:
        self.last = last
        self.failures += 1
        if self.state is CircuitState.HALF_OPEN:
            self.waits_s = min(LONGEST_BETWEEN_PROBES_S, 2.0 * self.waits_s)
            self._become(CircuitState.OPEN, now)
        elif self.state is CircuitState.CLOSED and self.failures >= FAILURES_TO_OPEN:
            self._become(CircuitState.OPEN, now)

    def given_up(self, now: float) -> TransportError | Reply:
        """The end of a call that will not wait any longer.

        An endpoint that was tried for a caller's whole budget is not worth another attempt at the rollout, so the
        error says that it is not retryable.
        """
        if isinstance(self.last, Reply):
            return self.last
        tried = f"tried {self.failures} times in {now - self.since:.1f} s"
        failure = self.last.failure
        error = error_of(replace(failure, message=f"{failure.message}; {tried}", retryable=False))
        assert isinstance(error, TransportError)
        return error

    def _become(self, state: CircuitState, now: float) -> None:
        assert state in CIRCUIT_TRANSITIONS[self.state], (self.state, state)
        self.state, self.changed_at = state, now


class CircuitBreakers:
    """The endpoints of a transport that fail."""

    def __init__(self) -> None:
        self.by_url: dict[str, CircuitBreaker] = {}
        """Empty while everybody answers: what the hot path looks at."""
        self.refusals = 0
        """Calls that an endpoint turned away because it had too many (HTTP 429)."""
        self._logged_at: dict[tuple[str, str], float] = {}

    def is_out(self, url: str, now: float) -> bool:
        """Whether a call to `url` would have to wait."""
        breaker = self.by_url.get(url)
        return breaker is not None and not breaker.would_admit(now)

    def note_failure(self, url: str, last: TransportError | Reply, now: float) -> None:
        """Note a failure by which the endpoint may be out."""
        breaker = self.by_url.get(url)
        if breaker is None:
            breaker = self.by_url[url] = CircuitBreaker(url, now, last)
        was_open = breaker.is_open
        breaker.note_failure(last, now)
        if breaker.is_open and not was_open:
            log.warning("%s; calls to it wait until it answers again", breaker.cause)

    def note_answer(self, url: str, now: float) -> None:
        """Note that the endpoint answered. Only worth calling while there is a breaker."""
        breaker = self.by_url.pop(url, None)
        if breaker is not None and breaker.is_open:
            log.warning("%s answers again after %.1f s", url, now - breaker.since)

    def should_log(self, url: str, kind: str, now: float) -> bool:
        """Whether to log a failure of this kind: the first, and then one every half a minute."""
        logged_at = self._logged_at.get((url, kind))
        if logged_at is not None and now - logged_at < LOG_AGAIN_AFTER_S:
            return False
        self._logged_at[url, kind] = now
        return True

    def to_wire(self, now: float) -> list[dict[str, Any]]:
        """The endpoints that are out, for `GET /_ng/stats`."""
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


def breakers_of(transport: Transport) -> CircuitBreakers:
    """The circuit breakers that all callers of `transport` share."""
    breakers = _of_transport.get(transport)
    if breakers is None:
        breakers = _of_transport[transport] = CircuitBreakers()
    return breakers
