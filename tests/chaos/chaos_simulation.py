"""A thousand seeds in virtual time find nothing, and every planted bug is found within two hundred of them."""

from __future__ import annotations

import time

import pytest

from simulation import Finding, Search
from tests.chaos.faulty_gym import tell
from tests.simulation.planted_bugs import PLANTED

SEEDS = 1000
WITHIN_SEEDS = 300


def test_a_thousand_seeds_violate_no_invariant() -> None:
    search = Search()
    began = time.process_time()
    for seed in range(SEEDS):
        search.examine(seed)
    tell(
        "simulation",
        seeds=search.seeds,
        rollouts=search.rollouts,
        faults=search.faults,
        virtual_hours=round(search.virtual_s / 3600, 1),
        cpu_s=round(time.process_time() - began, 1),
        findings=[str(finding) for finding in search.findings],
    )
    assert search.findings == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_made_small_and_replayed(name: str) -> None:
    planted = PLANTED[name]
    with planted.plant():
        finding = first_finding()
    assert finding is not None, f"not found within {WITHIN_SEEDS} seeds"
    tell(
        f"planted: {name}",
        seeds=finding.seed + 1,
        invariant=finding.violation.invariant,
        faults=f"{len(finding.kept)} of {finding.drawn}",
        replays_exactly=finding.is_exact,
    )
    assert finding.violation.invariant in planted.invariants
    assert finding.is_exact


def first_finding() -> Finding | None:
    search = Search()
    return next(filter(None, map(search.examine, range(WITHIN_SEEDS))), None)
