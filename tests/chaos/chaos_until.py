"""Ten thousand runs that stop by themselves, for each shape of tasks: coverage, width, saving, errors and power.

`make chaos` runs them. Each takes about two minutes on one core and prints its figures. The figures of one shape:

    .venv/bin/python -m pytest -s tests/chaos/chaos_until.py -k "mixed and 0.02"
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from nemo_gym.statistics.distributions import find_beta_quantile
from nemo_gym.statistics.planning import Spread, find_smallest_difference
from tests.rollouts.doubles import AGENT
from tests.rollouts.run.until_runs import RandomAgents, run_until
from tests.statistics.simulated_draws import Outcome, Population, run_many

TASKS = 200
RUNS = int(os.environ.get("NEMO_GYM_SIMULATED_RUNS", "10000"))
CHUNK = 2000
SHARED_DATA = Path(__file__).parents[3] / "shared" / "data"


def population_of(shape: str) -> Population:
    """Return 200 tasks of a shape. The tasks are the same in all runs."""
    rng = np.random.default_rng(1)
    if shape == "partial":
        means = rng.beta(1.2, 1.2, TASKS)
        inner = np.stack(
            [np.array([1, 4, 6, 4, 1])[j] * means**j * (1 - means) ** (4 - j) for j in range(5)], -1
        )
        shares = 0.6 * inner
        shares[:, 0] += 0.4 * (1 - means)
        shares[:, 4] += 0.4 * means
        return Population(np.arange(5) / 4, shares / shares.sum(1, keepdims=True))
    rates = {
        "easy": rng.beta(18, 2, TASKS),
        "hard": rng.beta(2, 18, TASKS),
        "mixed": rng.uniform(size=TASKS),
        "split": np.repeat([0.02, 0.98, 0.5], [80, 80, 40]),
    }
    return Population.of_rates(rates[shape])


def simulate(population: Population, half_width: float | None, seed: int, most: int = 200_000) -> Outcome:
    """Return `RUNS` runs, simulated a few thousand at a time."""
    sizes = [min(CHUNK, RUNS - start) for start in range(0, RUNS, CHUNK)]
    parts = [
        run_many(population, half_width, runs=size, seed=seed + number, most=most)
        for number, size in enumerate(sizes)
    ]
    names = ("draws", "low", "high", "is_reached", "ever_missed")
    draws, low, high, reached, missed = (
        np.concatenate([getattr(part, name) for part in parts]) for name in names
    )
    return Outcome(draws, low, high, reached, missed)


def tell(text: str) -> None:
    """Print a figure."""
    sys.stdout.write(f"{text}\n")


def lower_limit(successes: int, trials: int) -> float:
    """Return the lower limit of a rate with 99 % confidence (Clopper and Pearson 1934)."""
    return find_beta_quantile(0.01, successes, trials - successes + 1) if successes else 0.0


@pytest.mark.parametrize("half_width", [0.03, 0.02, 0.01])
@pytest.mark.parametrize("shape", ["easy", "hard", "mixed", "partial", "split"])
def test_means(shape: str, half_width: float) -> None:
    population = population_of(shape)
    outcome = simulate(population, half_width, seed=17)
    covered = int(((outcome.low <= population.truth) & (population.truth <= outcome.high)).sum())
    fixed = 2 * 1.959964 * np.sqrt(population.variance / outcome.draws)
    ratio = float(np.median((outcome.high - outcome.low) / fixed))
    worst, known = (1.959964**2 * variance / half_width**2 for variance in (0.25, population.variance))
    median = float(np.median(outcome.draws))
    tell(
        f"\n{shape} ±{half_width:g}: coverage {covered / RUNS:.4f} (at least {lower_limit(covered, RUNS):.4f}), "
        f"missed at any look {outcome.ever_missed.mean():.4f}, width {ratio:.3f} x fixed, draws {median:,.0f} "
        f"(90 %: {np.quantile(outcome.draws, 0.9):,.0f}), fixed {worst:,.0f} or {known:,.0f} with known variances, "
        f"saving {1 - median / worst:+.0%}"
    )
    assert outcome.is_reached.all()
    assert lower_limit(covered, RUNS) >= 0.95
    assert ratio <= (1.5 if shape != "split" else 1.75)


@pytest.mark.parametrize("rates", [[1.0] * 5, [0.9], [0.97, 1.0, 0.5], [0.3, 0.3]])
def test_few_tasks(rates: list[float]) -> None:
    population = Population.of_rates(np.array(rates))
    outcome = simulate(population, 0.02, seed=29)
    covered = int(((outcome.low <= population.truth) & (population.truth <= outcome.high)).sum())
    tell(
        f"\n{len(rates)} tasks, mean {population.truth:.3f} ±0.02: coverage {covered / RUNS:.4f}, "
        f"draws {np.median(outcome.draws):,.0f} (90 %: {np.quantile(outcome.draws, 0.9):,.0f})"
    )
    assert outcome.is_reached.all()
    assert lower_limit(covered, RUNS) >= 0.95


@pytest.mark.parametrize("difference", [0.0, 0.02, 0.05, 0.1])
def test_pairs(difference: float) -> None:
    rates = np.random.default_rng(1).uniform(0.1, 0.8, TASKS)
    better = rates + difference
    both = better * rates + (1 - better) * (1 - rates)
    shares = np.stack([(1 - better) * rates, both, better * (1 - rates)], -1)
    outcome = simulate(Population(np.array([0.0, 0.5, 1.0]), shares), None, seed=23, most=TASKS * 50)
    right = int((outcome.is_reached & (outcome.low >= 0.5)).sum())
    wrong = int(outcome.is_reached.sum()) - right if difference else int(outcome.is_reached.sum())
    tell(
        f"\na differs from b by {difference:g}: shown {right / RUNS:.4f}, wrongly {wrong / RUNS:.4f}, draws of a pair "
        f"{np.median(outcome.draws):,.0f} (90 %: {np.quantile(outcome.draws, 0.9):,.0f})"
    )
    assert wrong <= 0.05 * RUNS
    assert not difference or right >= 0.5 * RUNS


def test_planned_power() -> None:
    rng = np.random.default_rng(5)
    for repeats in (2, 4, 16):
        rates = rng.uniform(0.1, 0.7, TASKS)
        difference = find_smallest_difference(Spread(float((rates * (1 - rates)).mean())), TASKS, repeats)
        counts = [rng.binomial(repeats, rate, (RUNS, TASKS)) for rate in (rates, rates + difference)]
        means = [count / repeats for count in counts]
        square = sum((mean * (1 - mean) / (repeats - 1)).sum(1) for mean in means)
        power = ((means[1] - means[0]).sum(1) > 1.959964 * np.sqrt(square)).mean()
        tell(f"\nplanned difference {difference:.4f} with {repeats} repeats: power {power:.4f}, planned 0.8")
        assert abs(power - 0.8) <= 0.02 + 2 / np.sqrt(RUNS)  # two points, and the error of the simulation


def test_kills(tmp_path: Path) -> None:
    """Runs of the product are killed five times, wrong answers take longer, and the interval covers as promised.

    A kill loses what is in flight. Every third run finishes it, as an interrupt does.
    """
    means = [float(each) for each in np.random.default_rng(3).uniform(size=20)]
    truth, covered, runs, off = float(np.mean(means)), 0, max(1, RUNS // 20), []
    for seed in range(runs):
        folder = tmp_path / str(seed)
        folder.mkdir()
        for start, after in enumerate((*[60] * 5, None)):
            agents = RandomAgents({AGENT: means}, 10 * seed + start, stop_after=after, is_killed=seed % 3 > 0)
            summary = asyncio.run(run_until(folder, agents, 20, until="±7%", resume=start > 0))
            if summary.exit_code == 0:
                break
        assert summary.estimate is not None
        assert summary.estimate.is_reached
        covered += summary.estimate.low <= truth <= summary.estimate.high
        off.append(summary.estimate.mean - truth)
        shutil.rmtree(folder)
    tell(
        f"\n{runs} runs that were killed five times: coverage {covered / runs:.4f} (at least "
        f"{lower_limit(covered, runs):.4f}), bias {np.mean(off):+.4f} ± {2 * np.std(off) / np.sqrt(runs):.4f}"
    )
    assert covered >= 0.95 * runs - 2.33 * np.sqrt(runs * 0.95 * 0.05)


def test_gsm8k() -> None:
    path = SHARED_DATA / "gsm8k" / "recorded_6b_finetuning.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not on this machine")
    right = np.array([float(json.loads(line)["is_correct"]) for line in path.read_text().splitlines()])
    spread = 0.9 * right + 0.05  # of a model that gives the recorded answer in 95 of 100 rollouts
    for name, rates in (("recorded", right), ("95 % recorded", spread)):
        population = Population.of_rates(rates)
        parts = [run_many(population, 0.02, runs=100, seed=number, most=20_000) for number in range(3)]
        draws = np.concatenate([part.draws for part in parts])
        known = 1.959964**2 * population.variance / 0.02**2
        tell(
            f"\nGSM8K, {name}: {len(right):,} tasks, mean {population.truth:.4f}, ±2 points: {np.median(draws):,.0f} "
            f"draws; fixed: {1.959964**2 * 0.25 / 0.02**2:,.0f}, {known:,.0f} with known variances, one of each task "
            f"{len(right):,}; missed {np.concatenate([part.ever_missed for part in parts]).mean():.3f}"
        )
        assert np.median(draws) < 2401
