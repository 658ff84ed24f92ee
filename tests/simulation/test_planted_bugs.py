"""Planted bugs are found within 300 seeds; `tests/chaos/chaos_simulation.py` also shrinks each and counts seeds."""

from __future__ import annotations

import pytest

from simulation import Scenario, Violation, draw, play, shrink
from tests.samples import one_in
from tests.simulation.planted_bugs import PLANTED, Planted

pytestmark = pytest.mark.long_file

WITHIN_SEEDS = 300
SHRUNK = ("tool_call_replayed", "append_without_flush", "session_not_closed", "failure_scored_zero")


def first_finding(planted: Planted) -> tuple[Scenario, Violation]:
    """Return the first finding of a planted bug. Its known seed is tried first."""
    for seed in sorted(range(WITHIN_SEEDS), key=lambda seed: seed != planted.shows_at):
        result = play(draw(seed))
        if result.finding is not None:
            return result.scenario, result.finding
    raise AssertionError(f"not found within {WITHIN_SEEDS} seeds")


@pytest.mark.parametrize("name", one_in(3, PLANTED))
def test_a_planted_bug_is_found_by_an_invariant_that_it_violates(name: str) -> None:
    planted = PLANTED[name]
    with planted.plant():
        scenario, violation = first_finding(planted)
    assert violation.invariant in planted.invariants
    assert play(scenario).finding is None, "it is the bug that was found"


@pytest.mark.parametrize("name", one_in(4, SHRUNK))
def test_a_finding_is_made_small_and_replays_exactly(name: str) -> None:
    planted = PLANTED[name]
    with planted.plant():
        scenario, violation = first_finding(planted)
        finding = shrink(scenario, violation)
        again = play(scenario.keeping(finding.kept))
    assert finding.is_exact
    assert finding.violation.invariant == violation.invariant
    assert (again.digest, again.finding) == (finding.digest, finding.violation)
    assert len(finding.kept) < finding.drawn or finding.drawn <= 1
    assert all(str(fault) in str(finding) for fault in finding.faults)
    assert f"+seed={finding.seed} '+keep=[{','.join(map(str, finding.kept))}]'" in str(finding)
