"""Durable scenarios: crashes in the middle of attempts, and attempts that go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemo_gym.rows.keys import REPLAY_KEY
from simulation import Scenario, draw, play
from simulation.durability import CrashesAtCalls
from simulation.events import Event, Kind
from simulation.faults import AGENT, COLLECTOR, ENVIRONMENT, MODEL, CrashAtCall


def draw_durable(*crashes: CrashAtCall) -> Scenario:
    scenario = next(draw(seed) for seed in range(50) if draw(seed).is_durable and draw(seed).planned >= 6)
    return replace(scenario, faults=crashes, max_attempts=3, has_nodes=False)


@pytest.mark.parametrize("server", [COLLECTOR, AGENT, ENVIRONMENT, MODEL])
def test_a_crash_in_the_middle_of_attempts_violates_nothing(server: str) -> None:
    result = play(draw_durable(CrashAtCall(server, 3, 0.2)))
    assert result.violations == []
    rows = [row for event in result.events if event.kind is Kind.ENDED for row in event.detail.rows]
    is_continued = any(REPLAY_KEY.encode() in row for row in rows)
    assert is_continued is (server != MODEL), "calls of a model server are sent again"


def test_crashes_are_part_of_every_durable_scenario_and_of_no_other() -> None:
    for seed in range(60):
        scenario = draw(seed)
        assert scenario.is_durable is any(isinstance(fault, CrashAtCall) for fault in scenario.faults)
    servers = {
        fault.server for seed in range(60) for fault in draw(seed).faults if isinstance(fault, CrashAtCall)
    }
    assert servers == {COLLECTOR, AGENT, ENVIRONMENT, MODEL}


def test_a_crash_is_set_off_once_by_its_call() -> None:
    crashed: list[CrashAtCall] = []
    faults = [CrashAtCall(MODEL, 2, 1.0), CrashAtCall(AGENT, 3, 1.0)]
    crashes = CrashesAtCalls(faults, crashed.append)
    for _ in range(2):
        crashes.observe(Event(0.0, Kind.ANSWERED, "engine /v1/chat/completions"))
    assert crashed == faults[:1]
    crashes.disarm()
    crashes.observe(Event(0.0, Kind.ANSWERED, "engine /v1/chat/completions"))
    assert crashed == faults[:1]
