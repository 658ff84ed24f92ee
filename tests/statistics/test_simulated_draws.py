"""Simulated runs have the limits of the product for the same draws, and keep its promises in a small sample."""

from __future__ import annotations

import numpy as np
import pytest

from nemo_gym.statistics.sequential import Draw, SequentialMean
from tests.statistics.simulated_draws import Outcome, Population, run_many

RATES = np.random.default_rng(1).uniform(size=30)


def replay(outcome: Outcome, population: Population, half_width: float | None) -> SequentialMean:
    """Add the draws of a single recorded run."""
    mean = SequentialMean(len(population.shares), half_width)
    for batch in outcome.batches:
        shares, least = batch["shares"][0], float(batch["shares"][0].min())
        for task, counts in enumerate(batch["seen"][0]):
            for value, count in zip(population.support, counts, strict=True):
                draw = Draw(
                    task, float(shares[task]), least, float(batch["variance"][0]), float(value), float(value)
                )
                for _ in range(count):
                    mean.add(draw)
    return mean


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("half_width", [0.06, None])
def test_the_simulation_has_the_limits_of_the_product(seed: int, half_width: float | None) -> None:
    shares = np.random.default_rng(seed).dirichlet([1, 1, 1], 30)
    population = Population(np.array([0.0, 0.5, 1.0]), shares)
    outcome = run_many(population, half_width, runs=1, seed=seed, most=900, whole_grid=True, records=True)
    mean = replay(outcome, population, half_width)
    assert mean.draws == outcome.draws[0]
    assert (mean.interval.low, mean.interval.high) == pytest.approx(
        (outcome.low[0], outcome.high[0]), abs=1e-9
    )


def test_a_window_of_claims_tells_the_same_as_the_whole_grid() -> None:
    population = Population.of_rates(RATES)
    window, whole = (
        run_many(population, 0.05, runs=20, seed=3, most=5000, whole_grid=is_whole)
        for is_whole in (False, True)
    )
    assert window.draws.tolist() == whole.draws.tolist()
    assert window.low.tolist() == whole.low.tolist()


def test_limits_cover_the_mean() -> None:
    population = Population.of_rates(RATES)
    outcome = run_many(population, 0.05, runs=400, seed=5, most=8000)
    assert outcome.is_reached.all()
    assert outcome.ever_missed.mean() < 0.06
    fixed = 2 * 1.96 * np.sqrt(population.variance / outcome.draws)
    assert np.median((outcome.high - outcome.low) / fixed) < 1.6
