"""The invariant of closings on invented events. `test_planted_bugs.py` checks it on real bugs."""

from __future__ import annotations

import pytest

from simulation.closings import SessionsAreClosedOnce
from simulation.events import Event, Kind
from simulation.faults import ENVIRONMENT

OPENED, NAMED = (Kind.OPENED, "s"), (Kind.NAMED, "n")
CLOSED, UNNAMED, OVER = (Kind.CLOSED, "s"), (Kind.UNNAMED, "n"), (Kind.OVER, None)


def problems(*events: tuple[Kind, object]) -> list[str]:
    invariant = SessionsAreClosedOnce()
    found = (invariant.observe(Event(0.0, kind, ENVIRONMENT, detail=detail)) for kind, detail in events)
    return [problem for problem in found if problem]


def test_a_session_that_is_freed_by_both_protocols_once_is_closed_once() -> None:
    assert problems(OPENED, NAMED, UNNAMED, CLOSED, OVER) == []


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ((OPENED, CLOSED, CLOSED), "the session s was closed twice (None)"),
        ((NAMED, UNNAMED, UNNAMED), "the session n was closed twice (None)"),
        ((OPENED, NAMED, CLOSED, OVER), "the session n was never closed by its name"),
    ],
)
def test_a_session_that_is_freed_twice_or_never_is_found(
    events: tuple[tuple[Kind, object], ...], problem: str
) -> None:
    assert problems(*events) == [problem]


def test_a_crash_frees_the_sessions() -> None:
    assert problems(OPENED, NAMED, (Kind.CRASHED, 1.0), OVER) == []
