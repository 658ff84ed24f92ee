"""Calendars of one day: expected events, events of an answer, and a scheduler that meets every constraint.

Times are minutes since midnight. An event occupies `[start, start + duration)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, Field, field_validator

GRID = 15
"""The scheduler starts events at multiples of this many minutes."""

_TIME = re.compile(r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>am|pm)?", re.IGNORECASE)


def minutes_of(text: str) -> int:
    """Parse "14:30", "2:30pm" or "2pm" to minutes since midnight. Raises ValueError for other texts."""
    match = _TIME.fullmatch(text.strip())
    if match is None or not (match["minute"] or match["half"]):
        raise ValueError(f"{text!r} is no time of day")
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), (match["half"] or "").lower()
    if minute > 59 or (not 1 <= hour <= 12 if half else hour > 24):
        raise ValueError(f"{text!r} is no time of day")
    return (hour % 12 + 12 * (half == "pm") if half else hour) * 60 + minute


class Window(NamedTuple):
    """The allowed time of an event: it starts within `[earliest, latest]` and ends by `end`."""

    earliest: int
    latest: int
    end: int

    def holds(self, start: int, duration: int) -> bool:
        return self.earliest <= start <= self.latest and start + duration <= self.end


_MIDNIGHT = 24 * 60
_TIMES_OF_KIND = {"before": 1, "after": 1, "at": 1, "between": 2}


def window_of(constraint: str | None) -> Window:
    """Parse a constraint: "before 1pm" ends by then, "after 2pm" starts then or later, "at 11:15am" starts exactly
    then, "between 10am and 12pm" combines both. Raises ValueError for other texts."""
    if constraint is None:
        return Window(0, _MIDNIGHT, _MIDNIGHT)
    kind, _, rest = constraint.strip().partition(" ")
    times = [minutes_of(time) for time in rest.split(" and ")] if kind in _TIMES_OF_KIND else []
    if len(times) != _TIMES_OF_KIND.get(kind):
        raise ValueError(f"{constraint!r} is none of: before X, after X, at X, between X and Y")
    earliest = 0 if kind == "before" else times[0]
    return Window(
        earliest,
        latest=earliest if kind == "at" else _MIDNIGHT,
        end=times[-1] if kind in ("before", "between") else _MIDNIGHT,
    )


def _checked_time(text: str) -> str:
    minutes_of(text)
    return text


Time = Annotated[str, AfterValidator(_checked_time)]


class ExpectedEvent(BaseModel):
    """One event of a task row."""

    event_id: int
    duration: int = Field(gt=0)
    """Minutes."""
    constraint: str | None = None
    min_time: Time
    max_time: Time

    @field_validator("constraint")
    @classmethod
    def _check_constraint(cls, value: str | None) -> str | None:
        window_of(value)
        return value

    def allows(self, start: int) -> bool:
        return all(window.holds(start, self.duration) for window in self.windows())

    def windows(self) -> tuple[Window, Window]:
        day = Window(minutes_of(self.min_time), _MIDNIGHT, minutes_of(self.max_time))
        return day, window_of(self.constraint)


class Event(NamedTuple):
    """An event of an answer."""

    event_id: int
    start: int
    duration: int


def overlapping(events: Sequence[Event]) -> tuple[int, int] | None:
    """Return the ids of two events that overlap; None when there are none."""
    in_order = sorted(events, key=lambda event: event.start)
    for earlier, later in pairwise(in_order):
        if later.start < earlier.start + earlier.duration:
            return earlier.event_id, later.event_id
    return None


def schedule(
    expected: Sequence[ExpectedEvent], taken: Mapping[int, int] | None = None
) -> dict[int, int] | None:
    """Return a start for every event, by id, that meets all constraints; None when the grid has none.

    Starts in `taken` are tried first, so that a new event moves as few others as possible.
    """
    wanted = taken or {}
    in_order = sorted(expected, key=lambda event: sum(1 for _ in _starts(event)))
    placed: list[Event] = []

    def place(index: int) -> bool:
        if index == len(in_order):
            return True
        event = in_order[index]
        for start in sorted(_starts(event), key=lambda start: start != wanted.get(event.event_id)):
            placed.append(Event(event.event_id, start, event.duration))
            if overlapping(placed) is None and place(index + 1):
                return True
            placed.pop()
        return False

    return {event.event_id: event.start for event in placed} if place(0) else None


def _starts(event: ExpectedEvent) -> Iterator[int]:
    return (start for start in range(0, _MIDNIGHT, GRID) if event.allows(start))
