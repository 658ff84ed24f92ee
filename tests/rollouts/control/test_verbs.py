"""The effects of every verb in every phase, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.rollouts.control.verbs import (
    ALLOWED,
    ControlRequest,
    ControlState,
    ControlVerb,
    Phase,
    Tuning,
    decide,
)
from nemo_gym.rows.identity import RolloutId

TUNING = Tuning(8, 3, 60.0)
STATE = ControlState(
    Phase.RUNNING,
    TUNING,
    in_flight={RolloutId(3, 0): 12.0, RolloutId(3, 1): 1.0, RolloutId(30, 0): 2.0},
    failed={RolloutId(1, 0): "engine:timeout", RolloutId(2, 0): "judge:judge_failed"},
)
BODIES: dict[ControlVerb, dict[str, Any]] = {
    ControlVerb.CANCEL: {"rollouts": ["3/0"]},
    ControlVerb.SET: {"num_samples_in_parallel": 4},
}


def ask(verb: ControlVerb, state: ControlState = STATE, **body: Any) -> Any:
    return decide(state, verb, ControlRequest(**body))


def in_phase(phase: Phase) -> ControlState:
    return ControlState(phase, STATE.tuning, STATE.in_flight, STATE.failed)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("verb", ControlVerb)
def test_every_verb_in_every_phase(verb: ControlVerb, phase: Phase) -> None:
    if phase not in ALLOWED[verb]:
        with pytest.raises(InputError, match="is refused: the run") as refused:
            ask(verb, in_phase(phase), **BODIES.get(verb, {}))
        assert refused.value.failure.http_status == 409
        assert "resume" in str(refused.value.failure.remedy)
        return
    effects = ask(verb, in_phase(phase), **BODIES.get(verb, {}))
    leads_to = {
        ControlVerb.PAUSE: Phase.PAUSED,
        ControlVerb.RESUME: Phase.RUNNING,
        ControlVerb.DRAIN: Phase.DRAINING,
    }
    assert effects.phase is leads_to.get(verb, phase)
    assert bool(effects.changes) is not (leads_to.get(verb) is phase), "a repeated request changes nothing"


def test_a_rollout_or_all_repeats_of_a_task_are_cancelled() -> None:
    assert ask(ControlVerb.CANCEL, rollouts=["3/0"]).cancelled == ((3, 0),)
    assert ask(ControlVerb.CANCEL, rollouts=["3-1"]).cancelled == ((3, 1),)
    assert ask(ControlVerb.CANCEL, rollouts=["3"]).cancelled == ((3, 0), (3, 1))
    assert ask(ControlVerb.CANCEL, rollouts=["3", "30/0"]).cancelled == ((3, 0), (3, 1), (30, 0))


def test_a_rollout_that_is_not_in_flight_is_refused_with_those_that_are() -> None:
    with pytest.raises(InputError, match="no rollout 1/0 is in flight") as refused:
        ask(ControlVerb.CANCEL, rollouts=["1/0"])
    assert "3/0, 30/0, 3/1" in str(refused.value.failure.remedy), "the longest first"


def test_failed_rollouts_are_requeued_all_by_class_or_by_name() -> None:
    assert ask(ControlVerb.REQUEUE).requeued == ((1, 0), (2, 0))
    assert ask(ControlVerb.REQUEUE, failure_class="engine:timeout").requeued == ((1, 0),)
    assert ask(ControlVerb.REQUEUE, rollouts=["2"]).requeued == ((2, 0),)
    assert ask(ControlVerb.REQUEUE, ControlState(Phase.RUNNING, TUNING)).changes == ()


@pytest.mark.parametrize("body", [{"failure_class": "engine:gone"}, {"rollouts": ["3/0"]}])
def test_a_requeue_that_finds_nothing_names_the_classes_of_failures(body: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        ask(ControlVerb.REQUEUE, **body)
    assert "engine:timeout (1), judge:judge_failed (1)" in str(refused.value.failure.remedy)


def test_a_run_whose_draws_decide_requeues_nothing() -> None:
    with pytest.raises(InputError, match="decides by itself"):
        ask(
            ControlVerb.REQUEUE,
            ControlState(
                Phase.RUNNING, TUNING, failed=STATE.failed, requeue_refusal="the run decides by itself"
            ),
        )


def test_values_are_set_and_equal_ones_change_nothing() -> None:
    effects = ask(ControlVerb.SET, num_samples_in_parallel=4, max_attempts=3, rollout_timeout_s=5.0)
    assert effects.tuning == Tuning(4, 3, 5.0)
    assert effects.changes == ("num_samples_in_parallel: 8 -> 4", "rollout_timeout_s: 60.0 -> 5.0")
    assert ask(ControlVerb.SET, max_attempts=3).changes == ()


@pytest.mark.parametrize(
    ("verb", "body", "message"),
    [
        (ControlVerb.PAUSE, {"rollouts": ["1/0"]}, "`pause` has no `rollouts`"),
        (ControlVerb.CANCEL, {"failure_class": "x", "rollouts": ["3/0"]}, "`cancel` has no `failure_class`"),
        (ControlVerb.DRAIN, {"max_attempts": 2}, "`drain` has no `max_attempts`"),
        (ControlVerb.SET, {}, "`set` needs a value"),
        (ControlVerb.CANCEL, {}, "`cancel` needs the rollouts"),
    ],
)
def test_fields_of_other_verbs_are_refused(verb: ControlVerb, body: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        ask(verb, **body)
    assert refused.value.failure.http_status == 422


def test_a_decision_changes_nothing() -> None:
    before = repr(STATE)
    for verb in ControlVerb:
        ask(verb, **BODIES.get(verb, {}))
    assert repr(STATE) == before
