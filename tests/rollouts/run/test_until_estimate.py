"""The estimate of a run in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson

from nemo_gym.rollouts.run.until_estimate import (
    UntilEstimate,
    describe_closing,
    describe_live,
    write_estimate,
)
from nemo_gym.rollouts.run.until_tokens import TokenCount
from nemo_gym.statistics.sequential import Draw, SequentialMean
from tests.rollouts.run.test_until_units import target_of

MEAN = UntilEstimate("±0.01", None, False, 200, True, 0.7, 0.69, 0.71, 4800, 4810, 0, 9604, 2979)
PAIR = replace(MEAN, aim="a differs from b", pair=("a", "b"), mean=0.03, low=0.01, high=0.05)


def closing(estimate: UntilEstimate) -> str:
    return "\n".join(describe_closing(estimate))


def test_a_mean() -> None:
    text = closing(MEAN)
    assert "estimate: 0.700, 95 % interval 0.690 to 0.710 (±0.010)" in text
    assert "these 200 tasks" in text
    assert "takes 9,604 (50% fewer here), or 2,979 if the spread" in text
    assert describe_live(MEAN) == "mean 0.700 (0.690 to 0.710), until ±0.01"


def test_what_costs_more_than_a_fixed_design_is_said_too() -> None:
    assert "(20% more here)" in closing(replace(MEAN, drawn=12_000, fixed=10_000))


def test_an_aim_that_was_not_reached_and_unknown_rewards() -> None:
    text = closing(replace(MEAN, is_reached=False, unknown=7, generalizes=True))
    assert "is not reached" in text
    assert "7 draws have no reward" in text
    assert "all tasks like these 200" in text


def test_nothing_is_saved_before_the_aim_is_reached() -> None:
    for estimate in (MEAN, PAIR):
        text = closing(replace(estimate, is_reached=False, ceiling="+max_rollouts=4810", tokens=9))
        assert "cost: 4,810 rollouts, 9 tokens." in text
        assert "fixed design" not in text


def test_tasks_without_a_draw_are_told() -> None:
    told = "these 200 tasks would have if each were attempted without end (3 of them had their chance at every draw"
    assert told in closing(replace(MEAN, undrawn=3))
    assert "had their chance" not in closing(MEAN)
    assert "had their chance" not in closing(replace(MEAN, undrawn=3, generalizes=True))


def test_a_limit_at_0_is_no_difference_of_0() -> None:
    below, above = replace(PAIR, low=-0.04, high=0.0), replace(PAIR, low=0.0, high=0.04)
    assert (
        "b is better than a, at 95 % confidence: the whole interval is below 0, without 0 itself."
        in closing(below)
    )
    assert (
        "a is better than b, at 95 % confidence: the whole interval is above 0, without 0 itself."
        in closing(above)
    )
    small = closing(replace(PAIR, low=0.00025, high=0.0009))
    assert "by more than 0.00025, at 95 % confidence." in small
    assert "more than 0.000," not in small


def test_a_pair() -> None:
    assert "a is better than b, by more than 0.010, at 95 % confidence." in closing(PAIR)
    assert "b is better than a, by more than 0.010, at 95 % confidence." in closing(
        replace(PAIR, low=-0.05, high=-0.01)
    )
    assert "No difference between a and b is shown." in closing(replace(PAIR, low=-0.01, is_reached=False))
    assert describe_live(PAIR).startswith("difference 0.030")
    named = replace(PAIR, labels=("a (Qwen/Qwen3-8B)", "b (org/other)"))
    assert "a (Qwen/Qwen3-8B) is better than b (org/other), by more than 0.010" in closing(named)


def test_the_estimate_is_in_units_of_the_reward(tmp_path: Path) -> None:
    mean = SequentialMean(2, 0.05)
    for number in range(1600):
        mean.add(Draw(number % 2, 0.5, 0.5, 0.25, number // 2 % 2, number // 2 % 2))
    target = replace(target_of("±5%"), least=-1.0, most=3.0, half_width=0.2)
    estimate = UntilEstimate.of(
        target,
        mean,
        units=2,
        rollouts_per_draw=1,
        drawn=1600,
        voided=0,
        unknown=0,
        is_reached=True,
        tokens=TokenCount(None),
    )
    assert abs(estimate.mean - 1.0) < 0.1
    assert abs(estimate.half_width - 2 * (mean.interval.high - mean.interval.low)) < 1e-9
    assert estimate.fixed >= estimate.fixed_known > 0
    write_estimate(tmp_path / "estimate.json", estimate)
    written = orjson.loads((tmp_path / "estimate.json").read_bytes())
    assert written["aim"] == "±0.2"
    assert written["text"] == closing(estimate).split("\n")
