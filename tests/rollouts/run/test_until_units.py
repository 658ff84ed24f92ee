"""The units of a run with an aim, and the value of a draw."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.task_rows import RepeatedTask, TaskShaper
from nemo_gym.rollouts.run.options import UntilOptions
from nemo_gym.rollouts.run.until_target import UntilTarget, read_target
from nemo_gym.rollouts.run.until_units import (
    DRAWS_OF_A_PAIR,
    DrawUnit,
    count_most_draws,
    find_bound,
    find_units,
)
from nemo_gym.rows.identity import RolloutId
from tests.rollouts.doubles import task_row


def target_of(
    until: str = "±5%", *, generalize: bool = False, max_rollouts: int | None = None
) -> UntilTarget:
    target = read_target(UntilOptions(until=until, generalize=generalize, max_rollouts=max_rollouts))
    assert target is not None
    return target


def tasks_of(*agents: str, count: int = 3) -> list[tuple[int, list[RepeatedTask]]]:
    task = TaskShaper().shape_row(task_row(agent=agents[0]))
    return [
        (number, [RepeatedTask(task.replace_agent(agent), 9) for agent in agents]) for number in range(count)
    ]


def test_a_task_of_each_agent_is_drawn() -> None:
    units = find_units(target_of(), tasks_of("a", "b"), 4)
    assert len(units) == 6
    assert units[1].rollouts(2) == [RolloutId(0, 5)]
    assert units[1].value([(0.25, 0.5)]) == (0.25, 0.5)


def test_both_agents_attempt_a_drawn_task() -> None:
    units = find_units(target_of("b differs from a"), tasks_of("a", "x", "b"), 1)
    assert units[2].rollouts(1) == [RolloutId(2, 5), RolloutId(2, 3)]
    assert units[0].value([(1.0, 1.0), (0.0, 0.0)]) == (1.0, 1.0)
    assert units[0].value([(0.0, 1.0), (0.5, 0.5)]) == (0.25, 0.75)


def test_all_repeats_of_a_task_are_one_draw() -> None:
    (unit, *_) = find_units(target_of(generalize=True), tasks_of("a"), 3)
    assert unit.size == 3
    assert unit.rollouts(0) == [RolloutId(0, 0), RolloutId(0, 1), RolloutId(0, 2)]
    assert unit.value([(1.0, 1.0), (0.0, 0.0), (0.5, 0.5)]) == (0.5, 0.5)


def test_equal_tasks_are_drawn_once_as_a_sample_and_each_as_a_task_of_its_own() -> None:
    tasks = [
        (number, [RepeatedTask(TaskShaper().shape_row(task_row(number % 4, id=str(number))), 9)])
        for number in range(12)
    ]
    assert [unit.task for unit in find_units(target_of(generalize=True), tasks, 1)] == [0, 1, 2, 3]
    assert len(find_units(target_of(), tasks, 1)) == 12


def test_agents_that_attempt_no_task_are_named_with_those_that_do() -> None:
    with pytest.raises(
        ConfigError, match="no task is attempted by smal; the agents of these tasks: large, small"
    ):
        find_units(target_of("smal differs from large"), tasks_of("small", "large"), 1)
    apart = [*tasks_of("a", count=1), *tasks_of("b", count=1)]
    with pytest.raises(ConfigError, match="by both a and b"):
        find_units(target_of("a differs from b"), apart, 1)
    with pytest.raises(ConfigError, match="no task to draw"):
        find_units(target_of(), [], 1)


def test_the_most_draws() -> None:
    units = [DrawUnit(task, 2, (0, 1)) for task in range(10)]
    assert count_most_draws(target_of(), units) is None
    assert count_most_draws(target_of(max_rollouts=7), units) == 3
    assert count_most_draws(target_of("a differs from b"), units) == DRAWS_OF_A_PAIR * 10
    assert count_most_draws(target_of(generalize=True), units) == 10
    assert count_most_draws(target_of(generalize=True, max_rollouts=4), units) == 2


@pytest.mark.parametrize(
    ("options", "draws", "bound"),
    [
        ({"max_rollouts": 7}, 3, "+max_rollouts=7"),
        ({"until": "a differs from b"}, 500, "the bound of 50 rollouts of each task by each agent"),
        ({"generalize": True}, 10, "the number of tasks, 10,"),
        ({"generalize": True, "max_rollouts": 4}, 2, "+max_rollouts=4"),
    ],
)
def test_the_bound_of_draws_is_named(options: dict[str, Any], draws: int, bound: str) -> None:
    units = [DrawUnit(task, 2, (0, 1)) for task in range(10)]
    assert find_bound(target_of(**options), units, draws) == bound
    assert find_bound(target_of(**options), units, draws - 1) is None
    assert find_bound(target_of(), units, 10**9) is None
