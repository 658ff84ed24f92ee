from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.failures import VerifierError
from nemo_gym.verify.rewards import sum_rewards

SCORES = st.dictionaries(st.text("abc", min_size=1, max_size=2), st.floats(-10, 10), min_size=1, max_size=5)


def test_components_are_weighted_and_summed() -> None:
    scored = sum_rewards({"correct": 1.0, "format": 0.5, "length": 2.0}, {"format": 0.2, "length": -0.1})
    assert scored.reward_components == {"correct": 1.0, "format": 0.1, "length": -0.2}
    assert scored.reward == pytest.approx(0.9)
    assert sum_rewards({"a": True, "b": 2}) == (3.0, {"a": 1.0, "b": 2.0})
    assert sum_rewards({}) == (0.0, {})


@settings(max_examples=50)
@given(SCORES)
def test_the_reward_is_exactly_the_sum_in_component_order(scores: dict[str, float]) -> None:
    scored = sum_rewards(scores)
    assert scored.reward == sum(scored.reward_components.values())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_component_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(VerifierError, match="broken=") as caught:
        sum_rewards({"fine": 1.0, "broken": value})
    assert caught.value.failure.code == "reward_not_finite"


def test_unknown_weights_are_refused() -> None:
    with pytest.raises(VerifierError, match="formatt"):
        sum_rewards({"format": 1.0}, {"formatt": 2.0})
