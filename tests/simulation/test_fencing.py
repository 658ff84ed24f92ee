"""The invariant of fencing on invented events. `test_planted_bugs.py` checks it on a real bug."""

from __future__ import annotations

import pytest

from simulation.events import Event, Kind
from simulation.fencing import FencedReplicasDoNothing

FENCED = Event(1.0, Kind.FENCED, "environment", detail="http://a")


def begun(address: str | None) -> Event:
    return Event(2.0, Kind.BEGUN, "environment /add", call=1, detail=address)


def done(status: int | None) -> Event:
    return Event(3.0, Kind.DONE, "environment /add", call=1, detail=status)


@pytest.mark.parametrize(
    ("events", "problems"),
    [
        ((begun("http://a"), done(200), FENCED), []),
        ((begun("http://a"), FENCED, done(None)), []),
        ((FENCED, begun("http://b"), done(200)), []),
        ((FENCED, begun(None), done(200)), []),
        ((begun("http://a"), FENCED, done(200)), ["answered"]),
        ((FENCED, begun("http://a"), done(None)), ["began"]),
    ],
)
def test_a_replica_that_was_taken_for_lost_neither_begins_nor_answers(
    events: tuple[Event, ...], problems: list[str]
) -> None:
    invariant = FencedReplicasDoNothing()
    found = [problem for event in events if (problem := invariant.observe(event))]
    assert found == [
        f"environment /add {did} at http://a, which was taken for lost (None)" for did in problems
    ]
