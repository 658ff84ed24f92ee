from __future__ import annotations

from simulation import draw
from simulation.faults import FAULT_KINDS_OF, CallFault, CollectorFault, CollectorFaultKind, Fault


def faults_of(seeds: range) -> list[Fault]:
    return [fault for seed in seeds for fault in draw(seed).faults]


def test_a_seed_is_the_same_scenario_whenever_it_is_drawn() -> None:
    assert [draw(seed) for seed in range(50)] == [draw(seed) for seed in range(50)]
    assert len({draw(seed).faults for seed in range(50)}) > 30


def test_every_kind_of_fault_is_drawn_within_a_thousand_seeds() -> None:
    faults = faults_of(range(1000))
    drawn = {(fault.place, fault.kind) for fault in faults if isinstance(fault, CallFault)}
    assert drawn == {(place, kind) for place, kinds in FAULT_KINDS_OF.items() for kind in kinds}
    assert {fault.kind for fault in faults if isinstance(fault, CollectorFault)} == set(CollectorFaultKind)


def test_some_runs_meet_no_fault_and_some_many() -> None:
    counts = {len(draw(seed).faults) for seed in range(200)}
    assert {0, 1, 8} <= counts


def test_a_scenario_keeps_the_faults_that_are_asked_for_and_all_else() -> None:
    scenario = next(draw(seed) for seed in range(100) if len(draw(seed).faults) >= 4)
    kept = scenario.keeping([1, 3])
    assert kept.faults == (scenario.faults[1], scenario.faults[3])
    assert kept.keeping([0, 1]) == kept
    assert str(kept) == str(scenario)
    assert kept.rng("tasks").random() == scenario.rng("tasks").random()
