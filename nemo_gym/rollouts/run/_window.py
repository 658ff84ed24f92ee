"""Bounds the rollouts in flight: by a fixed number, or by a search (`num_samples_in_parallel=auto`).

The search finds the smallest number of rollouts in flight that saturates the engine: fewer leave it idle, more only
queue. It measures scored rollouts per second, and refusals:

    climbing ──(doubling adds less than a quarter)───────────▶ holding ──(periodically)──▶ probing
                                                                  ▲                          │
                                                                  └──────────────────────────┘

By Little's law, in flight = rate x latency, a constant rate with twice the number in flight means twice the latency:
rollouts queue. The climb and its end are those of BBR's startup (Cardwell et al., BBR: Congestion-Based Congestion
Control, ACM Queue 14(5), 2016). The window is then the best rate times the latency before rollouts queued, the
bandwidth-delay product. A refusal reduces the window by three tenths, once per window, as in CUBIC (RFC 9438,
section 4.6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from nemo_gym.failures import Failure

_START: Final = 32
MOST: Final = 8192
"""The largest window."""
_LEAST_MEASURED: Final = 64
"""The fewest rollouts of a measurement: the relative error of the rate is about 1 / sqrt(64)."""
_CLIMB: Final = 2.0
_CLIMB_PAYS: Final = 1.25
"""The growth of the rate that justifies another doubling; the figure is BBR's."""
_LOOKS: Final = 2
"""Measurements that confirm the end of a climb or the success of a probe; one may be noise."""
_SATURATED: Final = 0.9
"""The share of the best rate at which a window counts as saturating."""
_PROBE: Final = 1.25
_PROBE_PAYS: Final = 1.125
_PROBE_AFTER: Final = 8
"""Measurements between probes."""
_BACK_OFF: Final = 0.7
_REFUSED_CODES: Final = frozenset({"rate_limited", "http_429", "too_many_files"})
_KEPT_MEASUREMENTS: Final = 100


class Window:
    """Bounds the rollouts in flight; by default to a fixed number."""

    def __init__(self, size: int) -> None:
        self.size = size
        """The number of rollouts that may be in flight now."""

    def note_scored(self, seconds: float) -> None:
        """Record an attempt that was scored `seconds` after its start."""

    def note_failed(self, failure: Failure) -> None:
        """Record a failed attempt."""

    def note_refused(self) -> None:
        """Record that an overloaded endpoint rejected a call."""

    def stop_measuring(self) -> None:
        """Ignore all attempts until `measure_anew`: the run is paused."""

    def measure_anew(self) -> None:
        """Measure again, once the rollouts in flight now have ended."""


def build_window(in_parallel: int | Literal["auto"], planned: int, most: int | None = None) -> Window:
    """Return the window for a setting and a number of planned rollouts. `most`: its upper bound."""
    if isinstance(in_parallel, int):
        return Window(min(in_parallel, most or in_parallel))
    return AutoWindow(min(planned, most or MOST))


class Search(StrEnum):
    """The state of the search for the window."""

    CLIMBING = "climbing"
    """The window doubles while the rate grows."""
    HOLDING = "holding"
    """The window is found."""
    PROBING = "probing"
    """A slightly larger window is tried: the engine's capacity may have grown."""


SEARCH_TRANSITIONS: Mapping[Search, frozenset[Search]] = {
    Search.CLIMBING: frozenset({Search.HOLDING}),
    Search.HOLDING: frozenset({Search.PROBING, Search.HOLDING}),
    Search.PROBING: frozenset({Search.HOLDING}),
}


class Measured(NamedTuple):
    """A window and the rate measured with it."""

    size: int
    per_second: float
    """By Little's law from the mean latency, which bursts of finished rollouts don't distort."""


class AutoWindow(Window):
    """Finds and keeps the window that saturates the engine."""

    def __init__(self, most: int = MOST, *, start: int = _START) -> None:
        """`most`: the upper bound of the window."""
        self._most = max(1, most)
        super().__init__(min(start, self._most))
        self.search = Search.CLIMBING
        self.measured: list[Measured] = []
        """The latest measurements, for the summary."""
        self._climbed: list[Measured] = []
        """The best rate of each window of the climb."""
        self._before_probe = Measured(self.size, 0.0)
        self._repeated = 0
        """Measurements of this window so far."""
        self._ignored_attempts = 0
        """Attempts that started in a larger window; refusals count again when these have ended."""
        self._is_paused = False
        self._begin(self.size)

    def stop_measuring(self) -> None:
        self._is_paused = True

    def measure_anew(self) -> None:
        self._is_paused = False
        self._begin(self.size)

    def note_scored(self, seconds: float) -> None:
        self._ignored_attempts -= 1
        if self._is_paused:
            return
        if self._passing > 0:  # it ran, in part, beside the rollouts of another window
            self._passing -= 1
            return
        self._scored += 1
        self._seconds += seconds
        if self._scored >= max(self.size, _LEAST_MEASURED) and self._seconds > 0:
            self._classify(Measured(self.size, self.size * self._scored / self._seconds))

    def note_failed(self, failure: Failure) -> None:
        self._ignored_attempts -= 1
        if failure.code in _REFUSED_CODES:
            self.note_refused()

    def note_refused(self) -> None:
        if self._is_paused or self._ignored_attempts > 0:
            return
        self._ignored_attempts = self.size
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
        """Describe the window for the summary."""
        steps = ", ".join(f"{size}: {rate:.1f}/s" for size, rate in self._climbed)
        found = "found" if self.search is not Search.CLIMBING else "the search was not finished"
        return f"{self.size:,} rollouts in flight ({found}{'; ' if steps else ''}{steps})"

    # --- Measuring ----------------------------------------------------------------------------------------------

    def _begin(self, size: int) -> None:
        """Change to a window of `size`. Measuring starts when the rollouts of the old window have ended."""
        self._passing = max(self.size, size)
        self.size = size
        self._scored = self._repeated = 0
        self._seconds = 0.0

    def _measure_again(self) -> None:
        self._scored, self._seconds = 0, 0.0
        self._repeated += 1

    # --- Judging ------------------------------------------------------------------------------------------------

    def _classify(self, now: Measured) -> None:
        self.measured = [*self.measured[1 - _KEPT_MEASUREMENTS :], now]
        match self.search:
            case Search.CLIMBING:
                self._classify_climb(now)
            case Search.HOLDING:
                self._classify_hold(now)
            case Search.PROBING:
                self._classify_probe(now)

    def _classify_climb(self, now: Measured) -> None:
        if self._repeated:  # the better of two looks: one pause of the engine ends no climb
            now = max(now, self._climbed.pop(), key=lambda each: each.per_second)
        before = self._climbed[-1] if self._climbed else None
        self._climbed.append(now)
        pays = before is None or now.per_second >= _CLIMB_PAYS * before.per_second
        if not pays and self._repeated + 1 < _LOOKS:
            self._measure_again()
        elif pays and now.size < self._most:
            self._begin(min(self._most, int(_CLIMB * now.size)))
        else:
            self._hold(compute_saturating(self._climbed))

    def _classify_hold(self, now: Measured) -> None:
        self._measure_again()
        if self._repeated >= _PROBE_AFTER and self.size < self._most:
            rates = [each.per_second for each in self.measured[-_PROBE_AFTER:]]
            self._before_probe = Measured(now.size, sum(rates) / len(rates))
            self._become(Search.PROBING)
            self._begin(min(self._most, math.ceil(_PROBE * now.size)))

    def _classify_probe(self, now: Measured) -> None:
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


def compute_saturating(climbed: Sequence[Measured]) -> int:
    """Return the best rate of a climb times the latency of its largest window below saturation."""
    best = max(climbed, key=lambda each: each.per_second)
    idle = [
        each for each in climbed if each.size < best.size and each.per_second < _SATURATED * best.per_second
    ]
    if not idle:  # the smallest window saturates already
        return climbed[0].size
    latency_s = idle[-1].size / idle[-1].per_second
    return min(best.size, math.ceil(best.per_second * latency_s))
