"""Bounds the rollouts in flight: by a number, or by one that `num_samples_in_parallel=auto` finds.

What `auto` looks for is the fewest rollouts in flight with which the engine is saturated: fewer leave it idle, more
only wait. It judges by scored rollouts per second, and by refusals:

    climbing ──(a doubling brings less than a quarter more)──▶ holding ──(now and then)──▶ probing
                                                                  ▲                          │
                                                                  └──────────────────────────┘

By Little's law, in flight = rate x latency, a rate that stays while the number in flight doubles means that latency has
doubled: rollouts queue. The climb and its end are those of BBR's startup (Cardwell et al., BBR: Congestion-Based
Congestion Control, ACM Queue 14(5), 2016), and so is what follows: the best rate seen times the latency that was had
before rollouts queued, the bandwidth-delay product. A refusal takes three tenths off the window, once a turnover, as
CUBIC does (RFC 9438, section 4.6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, Protocol

from nemo_gym.failures import Failure

_START: Final = 32
MOST: Final = 8192
"""The widest window that is tried."""
_LEAST_MEASURED: Final = 64
"""Rollouts that a rate is taken over, at least: its error is about 1 / sqrt(64)."""
_CLIMB: Final = 2.0
_CLIMB_PAYS: Final = 1.25
"""By how much the rate has to grow with a doubled window for the next doubling; BBR's own figure."""
_LOOKS: Final = 2
"""Measurements that say that a climb no longer pays, or that a probe does: one may be an accident."""
_SATURATED: Final = 0.9
"""The share of the best rate from which on a window counts as wide enough."""
_PROBE: Final = 1.25
_PROBE_PAYS: Final = 1.125
_PROBE_AFTER: Final = 8
"""Measurements from one probe to the next."""
_BACK_OFF: Final = 0.7
_REFUSED_CODES: Final = frozenset({"rate_limited", "http_429", "too_many_files"})
_TOLD_MEASUREMENTS: Final = 100


class Window(Protocol):
    """Bounds the rollouts in flight, and is notified of their results."""

    @property
    def size(self) -> int:
        """The number that may be in flight now."""
        ...

    def note_scored(self, seconds: float) -> None:
        """An attempt came to its score, so long after it was begun."""
        ...

    def note_failed(self, failure: Failure) -> None:
        """An attempt failed."""
        ...

    def note_refused(self) -> None:
        """An endpoint turned a call away because it had too many."""
        ...


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """As many as the user says."""

    size: int

    def note_scored(self, seconds: float) -> None:
        pass

    def note_failed(self, failure: Failure) -> None:
        pass

    def note_refused(self) -> None:
        pass


def window_of(in_parallel: int | Literal["auto"], planned: int) -> Window:
    """The window that a user asks for, for so many rollouts."""
    if isinstance(in_parallel, int):
        return FixedWindow(in_parallel)
    return AutoWindow(min(planned, MOST))


def auto_of(window: Window) -> AutoWindow | None:
    """`window` where it finds its size itself."""
    return window if isinstance(window, AutoWindow) else None


class Search(StrEnum):
    """The state of the search for the right window."""

    CLIMBING = "climbing"
    """Wider and wider, while that pays."""
    HOLDING = "holding"
    """Found."""
    PROBING = "probing"
    """A little wider for once: perhaps the engine can do more than it could."""


SEARCH_TRANSITIONS: Mapping[Search, frozenset[Search]] = {
    Search.CLIMBING: frozenset({Search.HOLDING}),
    Search.HOLDING: frozenset({Search.PROBING, Search.HOLDING}),
    Search.PROBING: frozenset({Search.HOLDING}),
}


class Measured(NamedTuple):
    """A window and what came through it."""

    size: int
    per_second: float
    """By Little's law, from the mean latency: bursts of rollouts that end together don't blur that."""


class AutoWindow:
    """Finds the window that saturates the engine, and keeps it."""

    def __init__(self, most: int = MOST, *, start: int = _START) -> None:
        """`most`: the widest window that can be of use."""
        self._most = max(1, most)
        self.size = min(start, self._most)
        self.search = Search.CLIMBING
        self.measured: list[Measured] = []
        """The latest measurements, for people."""
        self._climbed: list[Measured] = []
        """The best rate of each window of the climb."""
        self._before_probe = Measured(self.size, 0.0)
        self._repeated = 0
        """Measurements of this window so far."""
        self._deaf = 0
        """Attempts that have to end before a refusal counts again: those that were begun in a wider window."""
        self._begin(self.size)

    def note_scored(self, seconds: float) -> None:
        self._deaf -= 1
        if self._passing > 0:
            self._passing -= 1
            return
        self._scored += 1
        self._seconds += seconds
        if self._scored >= max(self.size, _LEAST_MEASURED) and self._seconds > 0:
            self._judge(Measured(self.size, self.size * self._scored / self._seconds))

    def note_failed(self, failure: Failure) -> None:
        self._deaf -= 1
        if failure.code in _REFUSED_CODES:
            self.note_refused()

    def note_refused(self) -> None:
        if self._deaf > 0:
            return
        self._deaf = self.size
        is_probe = self.search is Search.PROBING
        self._hold(self._before_probe.size if is_probe else max(1, int(_BACK_OFF * self.size)))

    def to_json(self) -> dict[str, Any]:
        return {
            "search": self.search.value,
            "in_parallel": self.size,
            "measured": [
                {"in_parallel": size, "rollouts_per_s": round(rate, 3)} for size, rate in self.measured
            ],
        }

    def describe(self) -> str:
        """The window found, for people."""
        steps = ", ".join(f"{size}: {rate:.1f}/s" for size, rate in self._climbed)
        found = "found" if self.search is not Search.CLIMBING else "the search was not over"
        return f"{self.size:,} rollouts in flight ({found}{'; ' if steps else ''}{steps})"

    # --- Measuring ----------------------------------------------------------------------------------------------

    def _begin(self, size: int) -> None:
        """Go over to a window of `size`. Rollouts that were begun in the old one pass before anything is measured."""
        self._passing = max(self.size, size)
        self.size = size
        self._scored = self._repeated = 0
        self._seconds = 0.0

    def _measure_again(self) -> None:
        self._scored, self._seconds = 0, 0.0
        self._repeated += 1

    # --- Judging ------------------------------------------------------------------------------------------------

    def _judge(self, now: Measured) -> None:
        self.measured = [*self.measured[1 - _TOLD_MEASUREMENTS :], now]
        match self.search:
            case Search.CLIMBING:
                self._judge_climb(now)
            case Search.HOLDING:
                self._judge_hold(now)
            case Search.PROBING:
                self._judge_probe(now)

    def _judge_climb(self, now: Measured) -> None:
        if self._repeated:
            now = max(now, self._climbed.pop(), key=lambda each: each.per_second)
        before = self._climbed[-1] if self._climbed else None
        self._climbed.append(now)
        pays = before is None or now.per_second >= _CLIMB_PAYS * before.per_second
        if not pays and self._repeated + 1 < _LOOKS:
            self._measure_again()
        elif pays and now.size < self._most:
            self._begin(min(self._most, int(_CLIMB * now.size)))
        else:
            self._hold(saturating(self._climbed))

    def _judge_hold(self, now: Measured) -> None:
        self._measure_again()
        if self._repeated >= _PROBE_AFTER and self.size < self._most:
            rates = [each.per_second for each in self.measured[-_PROBE_AFTER:]]
            self._before_probe = Measured(now.size, sum(rates) / len(rates))
            self._become(Search.PROBING)
            self._begin(min(self._most, math.ceil(_PROBE * now.size)))

    def _judge_probe(self, now: Measured) -> None:
        if now.per_second < _PROBE_PAYS * self._before_probe.per_second:
            self._hold(self._before_probe.size)
        elif self._repeated + 1 < _LOOKS:
            self._measure_again()
        else:
            self._hold(now.size)

    def _hold(self, size: int) -> None:
        self._become(Search.HOLDING)
        self._begin(size)

    def _become(self, search: Search) -> None:
        assert search in SEARCH_TRANSITIONS[self.search], (self.search, search)
        self.search = search


def saturating(climbed: Sequence[Measured]) -> int:
    """The best rate of a climb times the latency of its widest window that did not saturate the engine yet."""
    best = max(climbed, key=lambda each: each.per_second)
    idle = [
        each for each in climbed if each.size < best.size and each.per_second < _SATURATED * best.per_second
    ]
    if not idle:
        return climbed[0].size
    latency_s = idle[-1].size / idle[-1].per_second
    return min(best.size, math.ceil(best.per_second * latency_s))
