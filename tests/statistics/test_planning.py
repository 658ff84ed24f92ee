"""Plans: what a run can show agrees with what simulated runs show."""

from __future__ import annotations

import random
from math import sqrt

import pytest

from nemo_gym.statistics.planning import (
    Spread,
    count_repeats_for_difference,
    count_repeats_for_width,
    count_sequential_rollouts,
    find_half_width,
    find_power,
    find_smallest_difference,
    measure_spread,
)


def test_the_planned_power_is_that_of_simulated_runs() -> None:
    rng = random.Random(1)
    tasks, repeats = 60, 4
    before = [rng.uniform(0.2, 0.6) for _ in range(tasks)]
    spread = Spread(sum(mean * (1 - mean) for mean in before) / tasks)
    difference = find_smallest_difference(spread, tasks, repeats)
    found = 0
    for _ in range(1500):
        sums, square = 0.0, 0.0
        for mean in before:
            rates = []
            for shift in (0.0, difference):
                rate = sum(rng.random() < mean + shift for _ in range(repeats)) / repeats
                square += rate * (1 - rate) / (repeats - 1)
                rates.append(rate)
            sums += rates[1] - rates[0]
        found += sums > 1.96 * sqrt(square)
    assert found / 1500 == pytest.approx(0.8, abs=0.04)


def test_repeats_and_differences_belong_together() -> None:
    spread = Spread(0.2, 0.01)
    repeats = count_repeats_for_difference(spread, 200, 0.05)
    assert repeats is not None
    assert find_smallest_difference(spread, 200, repeats) <= 0.05
    assert find_smallest_difference(spread, 200, repeats - 1) > 0.05
    assert find_power(spread, 200, repeats, 0.05) >= 0.8
    needed = count_repeats_for_width(spread, 200, 0.03)
    assert needed is not None
    assert find_half_width(spread, 200, needed) <= 0.03


def test_no_number_of_repeats_makes_up_for_too_few_tasks() -> None:
    assert count_repeats_for_width(Spread(0.2, 0.1), 10, 0.01) is None
    assert count_repeats_for_difference(Spread(0.2, 0.1), 10, 0.01) is None


def test_sure_rewards_need_one_repeat() -> None:
    assert count_repeats_for_width(Spread(0.0), 10, 0.01) == 1
    assert find_power(Spread(0.0), 10, 1, 0.01) == 1.0
    assert count_sequential_rollouts(Spread(0.25), 0.01) == pytest.approx(1.25**2 * 9604, abs=3)


def test_the_spread_of_stored_rewards() -> None:
    rng = random.Random(2)
    means = [rng.betavariate(2, 2) for _ in range(2000)]
    tasks = [[float(rng.random() < mean) for _ in range(4)] for mean in means]
    spread = measure_spread(tasks)
    assert spread is not None
    assert spread.within == pytest.approx(0.2, abs=0.01)
    assert spread.between == pytest.approx(0.05, abs=0.01)
    assert measure_spread([[1.0], [0.0], []]) is None
    assert measure_spread([[1.0, 0.0]]) == Spread(0.5)
    assert measure_spread([[0.1] * 3] * 3) == Spread(0.0), "equal rewards have no spread"
    assert Spread.of_rate(0.5) == Spread(0.25)
    assert Spread.of_rate(0.3, generalizes=True) == Spread(0.0, 0.3 * 0.7)
