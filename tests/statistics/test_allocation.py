"""Predictions of tasks' means, and the probabilities of draws."""

from __future__ import annotations

import random

import pytest

from nemo_gym.statistics.allocation import TaskMoments, allocate_draws, allocate_evenly


def moments_of(values: dict[int, list[float]], tasks: int) -> TaskMoments:
    moments = TaskMoments(tasks)
    for task, own in values.items():
        for value in own:
            moments.add(task, value)
    return moments


def test_without_a_value_all_tasks_are_alike() -> None:
    predicted = TaskMoments(3).predict()
    assert predicted.means == [0.5] * 3
    allocation = allocate_draws(predicted, 0.01)
    assert allocation.probabilities == pytest.approx([1 / 3] * 3)
    assert allocation.least == pytest.approx(1 / 3)


def test_draws_go_where_a_mean_is_uncertain() -> None:
    values = {0: [1.0] * 20, 1: [0.0] * 20, 2: [0.0, 1.0] * 10, 3: []}
    allocation = allocate_draws(moments_of(values, 4).predict(), 0.01)
    right, wrong, mixed, unseen = allocation.probabilities
    assert max(right, wrong) < min(mixed, unseen)
    assert sum(allocation.probabilities) == pytest.approx(1)
    assert allocation.cumulated[-1] == pytest.approx(1)


def test_a_prediction_lies_between_the_tasks_own_mean_and_that_of_all() -> None:
    values = {task: [1.0, 1.0] for task in range(9)} | {9: [0.0, 0.0]}
    predicted = moments_of(values, 10).predict()
    assert 0 < predicted.means[9] < 0.9 < predicted.means[0] < 1


def test_tasks_that_resemble_each_other_share_a_prediction() -> None:
    rng = random.Random(0)
    alike = {task: [float(rng.random() < 0.5) for _ in range(4)] for task in range(200)}
    apart = {task: [float(task % 2)] * 4 for task in range(200)}
    spread = [
        max(means) - min(means) for means in (moments_of(v, 200).predict().means for v in (alike, apart))
    ]
    assert spread[0] < 0.5 < 0.9 < spread[1]


def test_partial_credit_without_spread_needs_few_draws() -> None:
    values = {task: [0.5] * 5 for task in range(5)} | {task: [0.0, 1.0] * 5 for task in range(5, 10)}
    probabilities = allocate_draws(moments_of(values, 10).predict(), 0.01).probabilities
    assert probabilities[0] < probabilities[9]


def test_a_wide_aim_makes_draws_even() -> None:
    predicted = moments_of({0: [1.0] * 50, 1: [0.0, 1.0] * 25}, 2).predict()
    assert allocate_draws(predicted, 0.3).least > allocate_draws(predicted, 0.001).least


def test_even_draws() -> None:
    allocation = allocate_evenly(4, 0.1)
    assert allocation.probabilities == [0.25] * 4
    assert (allocation.least, allocation.variance) == (0.25, 0.1)
