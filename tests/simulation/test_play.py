from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from nemo_gym import PARENT_DIR
from simulation import Result, Scenario, draw, play
from simulation.events import Event, Kind
from simulation.faults import (
    ASK,
    GENERATE,
    MEASURE,
    CallFault,
    CollectorFault,
    CollectorFaultKind,
    Fault,
    FaultKind,
)
from tests.samples import IS_WHOLE, one_in

pytestmark = pytest.mark.long_file

SEEDS = one_in(2, range(30))
REPLAYED = (4, 7, 11)
_DIGESTS = "from simulation import draw, play\nfor seed in {}: print(play(draw(seed)).digest)"


def small(*faults: Fault) -> Scenario:
    """A scenario of two sequential rollouts with `faults`."""
    return replace(
        draw(0),
        tasks=2,
        repeats=1,
        in_parallel=1,
        max_attempts=2,
        replicas=1,
        engine_s=0.5,
        ending=".jsonl",
        names_sessions=False,
        has_nodes=False,
        faults=faults,
    )


def events_of(result: Result, *kinds: Kind) -> list[Event]:
    return [event for event in result.events if event.kind in kinds]


def test_no_invariant_is_violated() -> None:
    findings = {seed: play(draw(seed)).violations for seed in SEEDS}
    assert {seed: violations for seed, violations in findings.items() if violations} == {}


def test_the_whole_gym_takes_part() -> None:
    """Every invariant would hold in a run without events, so this run must have them."""
    result = play(small())
    places = {event.place for event in events_of(result, Kind.BEGUN)}
    routes = ("agent /run", "policy_model /v1/responses", "engine /v1/chat/completions")
    of_environment = ("seed_session", "add", "verify", "close_session")
    assert {*routes, *(f"environment /{route}" for route in of_environment)} <= places
    assert "head_server /global_config_dict_yaml" in places
    (ended,) = (event.detail for event in events_of(result, Kind.ENDED))
    assert (ended.how, ended.exit_code, len(ended.rows)) == ("complete", 0, 2)


@pytest.mark.parametrize("seed", REPLAYED)
def test_a_seed_is_the_same_run_whenever_it_is_played(seed: int) -> None:
    first, second = play(draw(seed)), play(draw(seed))
    assert first.events == second.events
    assert first.digest == second.digest


def test_a_seed_is_the_same_run_in_another_process_with_other_hashes() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", _DIGESTS.format(REPLAYED)],
        env=os.environ | {"PYTHONHASHSEED": "4711", "PYTHONPATH": str(PARENT_DIR)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    ).stdout
    assert printed.split() == [play(draw(seed)).digest for seed in REPLAYED]


def test_other_seeds_are_other_runs() -> None:
    assert len({play(draw(seed)).digest for seed in range(5)}) == 5


@pytest.mark.parametrize(("ending", "shares"), [(".jsonl", (0.5, 1.0)), (".jsonl.zst", (0.5,))])
def test_a_run_recovers_from_a_death_at_every_single_operation_on_its_files(
    ending: str, shares: tuple[float, ...]
) -> None:
    """Not by chance: the process dies once at each of them, with half or all of a write done.

    `make chaos` plays each of them; otherwise every fourth is played.
    """
    step = 1 if IS_WHOLE else 4
    operation, died = 0, True
    while died:
        operation += step
        for share in shares:
            fault = CollectorFault(CollectorFaultKind.DIES_WRITING, operation, share)
            result = play(replace(small(fault), ending=ending))
            assert not result.violations, (operation, share)
            died = bool(events_of(result, Kind.DIED))
    assert operation > 15


def test_a_caller_that_leaves_before_the_first_check_is_detected() -> None:
    """A handler looks for its caller after 20 ms: one that left after 1 ms is missed then, and so on to the engine."""
    result = play(small(CallFault(ASK, 1, FaultKind.RESET_DURING, 0.001)))
    assert not result.violations
    with_fault = next(event for event in events_of(result, Kind.BROKEN) if event.place == " ".join(ASK))
    begun = next(event for event in events_of(result, Kind.BEGUN) if event.call == with_fault.call)
    done = next(event for event in events_of(result, Kind.DONE) if event.call == with_fault.call)
    assert with_fault.at - begun.at < 0.02
    assert 0.02 <= round(done.at - begun.at, 9) < 0.03
    left = next(event for event in events_of(result, Kind.LEFT) if event.place == " ".join(GENERATE))
    assert left.at == done.at


def test_a_run_interrupted_twice_leaves_no_handler_running() -> None:
    """The window is cut in the middle of model calls: engine, model and agent notice by their watch."""
    result = play(small(CollectorFault(CollectorFaultKind.INTERRUPTED, 0.2, 0.00125)))
    assert not result.violations
    interrupted = events_of(result, Kind.INTERRUPTED)[-1].at
    ended = next(event for event in events_of(result, Kind.ENDED))
    assert ended.detail.how == "interrupted"
    assert ended.at - interrupted < 0.1
    left = {event.place for event in events_of(result, Kind.LEFT) if event.at <= ended.at + 0.1}
    assert {"agent /run", "policy_model /v1/responses", "engine /v1/chat/completions"} <= left


def test_an_interrupted_run_does_not_wait_for_an_environment_that_is_silent_about_its_metrics() -> None:
    silent, interrupted = (
        CallFault(MEASURE, 1, FaultKind.SILENT_BEFORE),
        CollectorFault(CollectorFaultKind.INTERRUPTED, 30.0),
    )
    result = play(small(silent, interrupted))
    assert not result.violations
    ended = next(event for event in events_of(result, Kind.ENDED))
    assert ended.at == pytest.approx(30.0, abs=0.1)
    assert (ended.detail.how, len(ended.detail.rows)) == ("interrupted", 2)


def test_hours_are_played_in_no_time() -> None:
    slow = [CallFault(ASK, number, FaultKind.SLOW, 80.0) for number in range(1, 20)]
    result = play(small(*slow))
    assert not result.violations
    assert result.seconds > 200.0
    assert result.faults_met > 3
