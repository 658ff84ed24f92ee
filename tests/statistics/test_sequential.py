"""The interval of a mean over tasks: unbiased, valid at every look, and a function of the draws in their order."""

from __future__ import annotations

import random

import pytest

from nemo_gym.statistics.sequential import Draw, SequentialMean
from tests.statistics.draws import Drawing, is_narrow

MEANS = [random.Random(3).random() for _ in range(40)]
TRUTH = sum(MEANS) / len(MEANS)


def test_the_interval_covers_the_mean_at_the_moment_of_stopping() -> None:
    covered, off = 0, 0.0
    for seed in range(40):
        mean = Drawing(MEANS, 0.04, seed).run(is_narrow(0.04))
        assert mean.interval.high - mean.interval.low <= 0.08
        covered += mean.interval.low <= TRUTH <= mean.interval.high
        off += (mean.estimate - TRUTH) / 40
    assert covered >= 35  # 38 expected at least
    assert abs(off) < 0.01


def test_sure_tasks_cost_little() -> None:
    sure = Drawing([0.0, 1.0] * 20, 0.02, 1)
    unsure = Drawing([0.5] * 40, 0.02, 1)
    for drawing in (sure, unsure):
        drawing.run(is_narrow(0.02))
    assert 3 * sure.drawn < unsure.drawn


@pytest.mark.parametrize("tasks", [1, 2, 5, 40])
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rewards_that_agree_cost_the_same_with_any_number_of_tasks(tasks: int, rate: float) -> None:
    drawing = Drawing([rate] * tasks, 0.02, 1)
    mean = drawing.run(is_narrow(0.02), most=4000)
    assert mean.interval.low <= rate <= mean.interval.high
    assert drawing.drawn < 300


def test_the_sign_of_a_difference_is_found_and_none_is_invented() -> None:
    def is_decided(mean: SequentialMean) -> bool:
        return mean.interval.low > 0.5 or mean.interval.high < 0.5

    better = Drawing([0.6] * 20, None, 5).run(is_decided, most=4000)
    assert better.interval.low > 0.5
    wrong = sum(is_decided(Drawing([0.5] * 20, None, seed).run(is_decided, most=600)) for seed in range(40))
    assert wrong <= 4


def test_the_same_draws_give_the_same_limits() -> None:
    drawing = Drawing(MEANS, 0.05, 9)
    draws = [drawing.draw() for _ in range(700)]
    one, other = SequentialMean(40, 0.05), SequentialMean(40, 0.05)
    for draw in draws:
        one.add(draw)
    for draw in draws[:333]:
        other.add(draw)
    for draw in draws[333:]:
        other.add(draw)
    assert one.interval == other.interval
    assert one.estimate == other.estimate
    assert one.draws <= 700


def test_limits_change_only_at_the_end_of_a_batch() -> None:
    mean = SequentialMean(1, 0.1)
    changed = [mean.add(Draw(0, 1.0, 1.0, 0.25, 1.0, 1.0)) for _ in range(33)]
    assert [place for place, has_changed in enumerate(changed, start=1) if has_changed] == [16, 32]
    assert mean.draws == 32


def test_the_last_draws_count_too() -> None:
    mean = SequentialMean(4, 0.1, predicts=False)
    for task in range(20):
        mean.add(Draw(task % 4, 0.25, 0.25, 0.25, 1.0, 1.0))
    low = mean.interval.low
    assert mean.draws == 16
    for _ in range(2):
        mean.finish()
        assert mean.draws == 20
    assert mean.interval.low > low


def test_an_incomplete_batch_bets_as_a_whole_one_does() -> None:
    parts, whole = SequentialMean(4, 0.1), SequentialMean(4, 0.1)
    draws = [Draw(task % 4, 0.25, 0.25, 0.25, 1.0, 1.0) for task in range(32)]
    for mean, last in ((parts, 25), (whole, 32)):
        for draw in draws[:last]:
            mean.add(draw)
        mean.finish()
    assert 16 < parts.draws < whole.draws
    assert parts.interval.low < whole.interval.low


def test_a_value_that_is_unknown_widens_the_interval_by_all_that_it_may_be() -> None:
    known, unknown = SequentialMean(1, 0.05), SequentialMean(1, 0.05)
    for number in range(960):
        value = float(number % 2)
        known.add(Draw(0, 1.0, 1.0, 0.25, value, value))
        low, high = (0.0, 1.0) if number % 20 == 0 else (value, value)
        unknown.add(Draw(0, 1.0, 1.0, 0.25, low, high))
    assert unknown.interval.low <= known.interval.low
    assert unknown.interval.high >= known.interval.high + 0.03


def test_values_of_tasks_drawn_at_random_are_scores() -> None:
    rng = random.Random(2)
    mean = SequentialMean(500, 0.06, predicts=False)
    values = [rng.random() for _ in range(500)]
    for task, value in enumerate(values):
        mean.add(Draw(task, 1 / 500, 1 / 500, 1 / 12, value, value))
    assert mean.estimate == pytest.approx(sum(values[: mean.draws]) / mean.draws, abs=0.01)
    assert mean.interval.low < 0.5 < mean.interval.high


def test_before_a_draw_nothing_is_known() -> None:
    mean = SequentialMean(3, 0.01)
    assert (mean.interval.low, mean.interval.high, mean.variance_per_draw) == (0.0, 1.0, 0.25)
