"""The monitor records every event and checks all invariants after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from simulation.events import AttemptId, Event, Kind, Trace

MOST_EVENTS = 60_000
"""Limit of events in a run. No scenario needs as many, so a run beyond it is in an endless loop."""


class Invariant(Protocol):
    """A property that holds in every run, under all faults."""

    name: str

    def observe(self, event: Event) -> str | None:
        """Process the next event. Return the problem, if any."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant, with the virtual time in seconds."""

    invariant: str
    message: str
    at: float

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message} (at {self.at:.3f} s)"


class Monitor:
    """Records events. The first violation is the finding; later ones may be its consequences."""

    def __init__(self, clock: Callable[[], float], invariants: Sequence[Invariant] = ()) -> None:
        self.invariants = invariants
        self.trace = Trace()
        self.violations: list[Violation] = []
        self.event_limit_reached = asyncio.Event()
        self._clock = clock

    def record(
        self,
        kind: Kind,
        place: str,
        *,
        attempt: AttemptId | None = None,
        call: int = 0,
        detail: Any = None,
    ) -> None:
        event = Event(round(self._clock(), 6), kind, place, attempt, call, detail)
        self.trace.add(event)
        for invariant in self.invariants:
            message = invariant.observe(event)
            if message is not None:
                self.violations.append(Violation(invariant.name, message, event.at))
        if len(self.trace.events) == MOST_EVENTS:
            self.violations.append(Violation("runs end", "the run is in an endless loop", event.at))
            self.event_limit_reached.set()
