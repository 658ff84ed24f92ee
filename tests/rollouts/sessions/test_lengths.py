from __future__ import annotations

import random
from statistics import fmean

import pytest

from nemo_gym.rollouts.sessions.lengths import LengthEstimate


def test_without_cancellations_it_is_the_mean() -> None:
    estimate = LengthEstimate()
    assert estimate.measure_mean() is None
    for tokens in (10, 20, 60):
        estimate.add_finished(tokens / 10, tokens)
    assert estimate.measure_mean() == pytest.approx(30)


def test_a_rollout_that_was_cancelled_or_runs_is_at_least_as_long() -> None:
    estimate = LengthEstimate()
    estimate.add_finished(1.0, 10)
    estimate.add_finished(3.0, 30)
    estimate.add_cancelled(2.0)  # counts as one that would have taken 3 seconds
    assert estimate.measure_mean() == pytest.approx((10 + 30 + 30) / 3)
    assert estimate.measure_mean([2.0]) == pytest.approx((10 + 30 + 30 + 30) / 4)
    assert estimate.measure_mean([99.0]) == pytest.approx((10 + 30 + 30 + 30) / 4)


def test_only_cancelled_rollouts_have_no_mean() -> None:
    estimate = LengthEstimate()
    estimate.add_cancelled(5.0)
    assert estimate.measure_mean([1.0]) is None


def test_cancelling_at_random_moments_does_not_change_the_estimate() -> None:
    rng = random.Random(3)
    lengths = [rng.lognormvariate(0.0, 0.7) for _ in range(20_000)]
    estimate, finished = LengthEstimate(), []
    for seconds in lengths:
        limit = rng.expovariate(0.3)
        if seconds <= limit:
            estimate.add_finished(seconds, round(1000 * seconds))
            finished.append(seconds)
        else:
            estimate.add_cancelled(limit)
    assert fmean(finished) < 0.85 * fmean(lengths)
    assert estimate.measure_mean() == pytest.approx(1000 * fmean(lengths), rel=0.03)


def test_counts_are_plain_data() -> None:
    estimate = LengthEstimate()
    estimate.add_finished(0.0, 5)
    estimate.add_cancelled(0.5)
    assert LengthEstimate.from_json(estimate.to_json()) == estimate
    with pytest.raises(TypeError):
        LengthEstimate.from_json({"1": [1, 2, 3, 4]})
