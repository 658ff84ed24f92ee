from __future__ import annotations

import pytest

from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right, judge


@pytest.mark.parametrize(
    ("right", "reward", "best", "conclusion"),
    [
        (Right.ACCEPT, 1.0, 1.0, Conclusion.RIGHT),
        (Right.ACCEPT, 0.5, 1.0, Conclusion.FALSE_REJECT),
        (Right.REJECT, 0.5, 1.0, Conclusion.RIGHT),
        (Right.REJECT, 1.0, 1.0, Conclusion.FALSE_ACCEPT),
        (Right.REJECT, 2.9, 3.0, Conclusion.RIGHT),
        (Right.REJECT, 3.0, 3.0, Conclusion.FALSE_ACCEPT),
    ],
)
def test_a_reward_is_judged_against_the_best_one(
    right: Right, reward: float, best: float, conclusion: Conclusion
) -> None:
    assert judge(right, reward, best) is conclusion


def test_an_outcome_comes_back_from_its_json() -> None:
    outcome = ProbeOutcome("t", "gold", Right.ACCEPT, Conclusion.FAILED, None, "", "it raised", place=0)
    assert outcome.as_json() == {
        "task": "t", "kind": "gold", "right": "accept", "conclusion": "failed", "reason": "it raised", "seconds": 0.0,
        "place": 0,
    }  # fmt: skip
    assert ProbeOutcome.from_json(outcome.as_json()) == outcome
