"""The aim of a run: its forms, and the likeliest mistakes with their messages."""

from __future__ import annotations

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.run.options import UntilOptions
from nemo_gym.rollouts.run.until_target import read_target


@pytest.mark.parametrize(
    ("text", "half_width"),
    [("±1%", 0.01), ("1%", 0.01), ("+-2.5 %", 0.025), ("+/-0.03", 0.03), ("± 0.02", 0.02), ("1e-3", 0.001)],
)
def test_widths(text: str, half_width: float) -> None:
    target = read_target(UntilOptions(until=text))
    assert target is not None
    assert target.half_width == pytest.approx(half_width)
    assert target.pair is None


def test_a_percentage_is_of_the_range_of_rewards() -> None:
    target = read_target(UntilOptions(until="±1%", reward_range=(-5.0, 5.0)))
    assert target is not None
    assert target.half_width == pytest.approx(0.1)
    assert target.scaled_half_width == pytest.approx(0.01)


def test_a_pair() -> None:
    target = read_target(UntilOptions(until="small differs  from large"))
    assert target is not None
    assert (target.pair, target.half_width) == (("small", "large"), None)
    assert str(target) == "small differs from large"


def test_no_aim() -> None:
    assert read_target(UntilOptions()) is None


MISTAKES = [
    ({"until": "0"}, "asks for certainty"),
    ({"until": "±0%"}, "asks for certainty"),
    ({"until": "-1%"}, "asks for certainty"),
    ({"until": "±1"}, "±1 is one whole reward, ±1% is a hundredth"),
    ({"until": "±60%"}, "as wide as the rewards' range"),
    ({"until": "one percent"}, "is not understood"),
    ({"until": "±1.2.3%"}, "is not understood"),
    ({"until": ""}, "is not understood"),
    ({"until": "a differs"}, "does not name two agents"),
    ({"until": "a differs from a"}, "does not differ from itself"),
    ({"until": "±1%", "reward_range": (1.0, 1.0)}, "is not a range"),
    ({"until": "±1%", "reward_range": (0.0, float("inf"))}, "Rewards without bounds"),
    ({"generalize": True}, "the run has no +until"),
    ({"max_rollouts": 10}, "the run has no +until"),
    ({"max_total_tokens": 10}, "the run has no +until"),
    ({"reward_range": (0.0, 2.0)}, "the run has no +until"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_mistakes(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_target(UntilOptions.model_validate(options))
    text = f"{raised.value} {raised.value.failure.remedy}"
    assert message in text


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        read_target(UntilOptions(until="a differs from a", reward_range=(2.0, 1.0)))
    assert "is not a range" in str(raised.value)
    assert "itself" in str(raised.value)
