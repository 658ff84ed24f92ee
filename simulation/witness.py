"""Sees everything that happens in the world, writes it down, and has every law look at it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from simulation.events import AttemptId, Event, Kind, Trace

MOST_EVENTS = 60_000
"""More than any scenario needs: a world that makes more turns in circles."""


class Law(Protocol):
    """Something that is always true of a run, whatever the faults."""

    name: str

    def see(self, event: Event) -> str | None:
        """Look at the next event; what is wrong with it, if anything."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A law that was broken, and when that showed."""

    law: str
    message: str
    at: float

    def __str__(self) -> str:
        return f"{self.law}: {self.message} (at {self.at:.3f} s)"


class Witness:
    """Notes events. The first violation is the finding; others may be its consequences."""

    def __init__(self, clock: Callable[[], float], laws: Sequence[Law] = ()) -> None:
        self.laws = laws
        self.trace = Trace()
        self.violations: list[Violation] = []
        self.seen_too_much = asyncio.Event()
        self._clock = clock

    def note(
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
        for law in self.laws:
            message = law.see(event)
            if message is not None:
                self.violations.append(Violation(law.name, message, event.at))
        if len(self.trace.events) == MOST_EVENTS:
            self.violations.append(Violation("runs end", "the run turns in circles", event.at))
            self.seen_too_much.set()
