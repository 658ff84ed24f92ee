"""A simulated node that is cut off, briefly or until its servers are started elsewhere."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from nemo_gym.rows.keys import FAILURE_KEY
from simulation import Result, draw, play
from simulation.events import Kind
from simulation.faults import Partition


def cut_for(seconds: float) -> Result:
    fault = Partition(1.0, seconds)
    return play(replace(draw(0), repeats=3, engine_s=2.0, in_parallel=4, has_nodes=True, faults=(fault,)))


@pytest.mark.parametrize(("seconds", "is_lost"), [(3.0, False), (14.0, True), (40.0, True)])
def test_only_a_node_that_is_cut_off_for_longer_than_its_lease_is_lost(seconds: float, is_lost: bool) -> None:
    result = cut_for(seconds)
    assert result.finding is None
    fenced = {event.place for event in result.events if event.kind is Kind.FENCED}
    assert fenced == ({"agent", "environment", "policy_model"} if is_lost else set())
    started = [event for event in result.events if event.kind is Kind.UP and event.place == "agent"]
    assert len(started) == (2 if is_lost else 1)


def test_attempts_on_a_lost_node_fail_as_node_lost_and_others_follow() -> None:
    ended = next(event.detail for event in cut_for(40.0).events if event.kind is Kind.ENDED)
    codes = {orjson.loads(line)[FAILURE_KEY]["code"] for line in ended.failures}
    assert "node_lost" in codes
    assert ended.how == "complete"
