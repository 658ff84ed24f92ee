"""Ledgers drop idle sessions, and drop the ids of the longest idle session when memory runs out."""

from __future__ import annotations

from nemo_gym.engines.tokens.ledgers import Ledgers
from nemo_gym.tokens.reasons import SegmentReason
from tests.tokens.captures import captured, said


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_sessions_that_are_silent_for_long_are_dropped() -> None:
    clock = Clock()
    ledgers = Ledgers(idle_s=60, clock=clock)
    ledgers.add("old", captured([1], [2]))
    clock.now = 61
    ledgers.add("new", captured([1], [2]))
    assert len(ledgers) == 1
    assert ledgers.held_ids == 2


def test_a_full_ledger_drops_the_ids_of_the_longest_idle_session() -> None:
    ledgers = Ledgers(room_mb=10 * 4 / 1e6)
    for session in ("a", "b", "c"):
        ledgers.add(session, captured([1, 2, 3], [4]), said("q", session))
    assert ledgers.held_ids == 8
    extended = captured([1, 2, 3, 4, 5], [6])
    assert ledgers.add("c", extended, said("q", "c", "x", "y")).reason is None
    assert ledgers.add("a", extended, said("q", "a", "x", "y")).reason is SegmentReason.UNLINKED


def test_a_closed_session_leaves_nothing() -> None:
    ledgers = Ledgers()
    ledgers.add("a", captured([1], [2]))
    ledgers.drop("a")
    ledgers.drop("a")
    assert (len(ledgers), ledgers.held_ids) == (0, 0)


def test_calls_without_a_session_are_alone() -> None:
    ledgers = Ledgers()
    assert ledgers.add(None, captured([1], [2])).reason is None
    assert ledgers.add(None, captured([1], [2])).call == ledgers.add_masked(None) == 0
    assert len(ledgers) == 0
