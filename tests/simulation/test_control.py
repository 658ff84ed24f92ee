"""Random requests of an operator with random faults: nothing is lost, and nothing happens twice."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

from nemo_gym.rollouts.control.verbs import ControlVerb
from nemo_gym.rollouts.run.collector import Collector
from simulation import draw, play
from simulation.control import add_requests
from simulation.events import Kind
from tests.samples import one_in

pytestmark = pytest.mark.long_file

SEEDS = one_in(8, range(200))


def test_no_request_loses_a_rollout_or_makes_one_twice() -> None:
    made: Counter[str] = Counter()
    findings = {}
    for seed in SEEDS:
        result = play(add_requests(draw(seed)))
        findings[seed] = result.violations
        made.update(str(event.detail).split()[0] for event in result.events if event.kind is Kind.CONTROLLED)
    assert {seed: violations for seed, violations in findings.items() if violations} == {}
    assert made.keys() == {verb.value for verb in ControlVerb}, "every verb takes part"


def test_a_play_with_requests_is_the_same_in_every_replay() -> None:
    scenario = add_requests(draw(3))
    assert scenario.requests == add_requests(draw(3)).requests
    assert play(scenario).digest == play(scenario).digest


def forget_cancelled() -> AbstractContextManager[Any]:
    """A cancelled rollout gets neither a row nor a failure."""

    def forget(_: Collector, worker: Any) -> bool:
        is_alone = bool(worker.is_cancelled and not worker.task.uncancel())
        worker.is_cancelled = False
        return is_alone

    return patch.object(Collector, "_is_cancelled_alone", forget)


def attempt_requeued_twice() -> AbstractContextManager[Any]:
    """A requeued rollout is attempted twice."""
    requeue = Collector.requeue

    def requeue_the_same(self: Collector, plan: Any) -> None:
        requeue(self, plan)
        self._failed.requeued.extend(list(self._failed.requeued))

    return patch.object(Collector, "requeue", requeue_the_same)


@pytest.mark.parametrize("bug", [forget_cancelled, attempt_requeued_twice])
def test_a_planted_bug_is_found(bug: Any) -> None:
    with bug():
        assert any(play(add_requests(draw(seed))).violations for seed in range(40))
