"""The information of tasks about models."""

from __future__ import annotations

import random

import pytest

from nemo_gym.statistics.task_information import (
    TaskKind,
    choose_smaller_set,
    correlate,
    describe_tasks,
    find_correlation_interval,
)

ABILITIES = {f"m{number}": 0.1 + 0.13 * number for number in range(7)}


def tasks_of(seed: int = 0) -> list[dict[str, list[float]]]:
    """Forty tasks: right, wrong, two where better models do worse, and others that tell models apart."""
    rng = random.Random(seed)

    def rewards(rate: float) -> list[float]:
        return [float(rng.random() < rate) for _ in range(20)]

    tasks = [{model: rewards(1.0) for model in ABILITIES}, {model: rewards(0.0) for model in ABILITIES}]
    tasks += [{model: rewards(1 - ability) for model, ability in ABILITIES.items()} for _ in range(2)]
    return tasks + [{model: rewards(ability) for model, ability in ABILITIES.items()} for _ in range(36)]


def test_tasks_are_told_apart() -> None:
    kinds = [each.kind for each in describe_tasks(tasks_of())]
    assert kinds[:4] == [
        TaskKind.ALWAYS_RIGHT,
        TaskKind.ALWAYS_WRONG,
        TaskKind.CONTRADICTORY,
        TaskKind.CONTRADICTORY,
    ]
    assert kinds[4:].count(TaskKind.TELLING) > 32


def test_difficulty_has_an_interval() -> None:
    right, wrong, *others = describe_tasks(tasks_of())
    assert (right.difficulty, wrong.difficulty) == (0.0, 1.0)
    assert right.difficulty_interval[0] == 0.0
    assert 0 < right.difficulty_interval[1] < 0.05
    assert right.discrimination is None
    for each in others:
        assert each.difficulty_interval[0] < each.difficulty < each.difficulty_interval[1]


def test_rounding_is_no_discrimination() -> None:
    own = [0.0, 0.1, 0.3, 0.4, 0.7, 1.0]
    others = [{str(model): [0.1] * 3 for model, _ in enumerate(own)} for _ in range(9)]
    first, *_ = describe_tasks([{str(model): [reward] for model, reward in enumerate(own)}, *others])
    assert first.discrimination is None, "all models have the same mean of the other tasks"


def test_few_models_leave_it_open() -> None:
    found = describe_tasks([{"a": [1.0], "b": [0.0]}, {"a": [0.5], "b": [0.2]}, {"a": []}])
    assert [each.kind for each in found] == [TaskKind.UNSURE] * 3
    assert found[0].discrimination == pytest.approx(1.0)
    assert found[0].discrimination_interval is None
    assert found[2].difficulty_interval == (0.0, 1.0)


def test_correlations() -> None:
    assert correlate([1, 2, 3, 4], [2, 4, 6, 8]) == pytest.approx(1.0)
    assert correlate([1, 1], [0, 1]) is None
    assert correlate([1], [1]) is None
    # Fisher: tanh(atanh(0.5) ± 1.96 / sqrt(7))
    assert find_correlation_interval(0.5, 10) == pytest.approx((-0.18918, 0.85915), abs=1e-4)
    assert find_correlation_interval(1.0, 10) == (1.0, 1.0)


def test_a_smaller_set_ranks_the_same() -> None:
    tasks = tasks_of()
    smaller = choose_smaller_set(tasks, agreement=0.8)
    assert smaller is not None
    assert len(smaller.tasks) < len(tasks)
    assert not {0, 1} & set(smaller.tasks)
    assert smaller.agreement_interval[0] < smaller.agreement <= smaller.agreement_interval[1]


def test_noise_has_no_smaller_set() -> None:
    rng = random.Random(3)
    tasks = [{model: [float(rng.random() < 0.5)] * 2 for model in "abcdef"} for _ in range(6)]
    assert choose_smaller_set([]) is None
    assert choose_smaller_set([{"a": [1.0]}]) is None
    alike = [{model: [0.0, 1.0] for model in "abcdef"} for _ in tasks]
    assert choose_smaller_set(alike) is None


def test_models_with_the_same_mean_in_each_task_have_no_rank_to_keep() -> None:
    assert choose_smaller_set([{"a": [0.0] * 2, "b": [0.0] * 2} for _ in range(6)]) is None
    assert choose_smaller_set([{"a": [float(task % 2)], "b": [float(task % 2)]} for task in range(6)]) is None
    assert choose_smaller_set([{"a": [1.0]}, {"b": [0.0]}]) is None, "no model has all tasks"
