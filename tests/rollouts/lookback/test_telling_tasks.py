"""Tasks of stored runs that tell models apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.telling_tasks import find_telling_tasks
from nemo_gym.statistics.task_information import TaskKind
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import rows_of_agents, scored_row, store


def test_tasks_have_their_figures(tmp_path: Path) -> None:
    found = find_telling_tasks(
        store_models(tmp_path, {f"m{number}": 0.1 + 0.2 * number for number in range(5)}, tasks=30, repeats=8)
    )
    assert len(found.tasks) == 30
    assert found.count_kinds()[TaskKind.TELLING] > 10
    assert found.smaller is not None
    assert len(found.smaller.tasks) < 30
    first = found.tasks[0].as_json()
    assert (first["task"], first["rollouts"], len(first["means"])) == (0, 40, 5)


def test_scores_outside_0_to_1_are_refused(tmp_path: Path) -> None:
    path = store(tmp_path / "out.jsonl", [scored_row(0, reward=3.0)])
    with pytest.raises(ConfigError, match="has the score 3, outside 0 to 1"):
        find_telling_tasks([path])


def test_the_agents_of_a_run_on_the_same_tasks_are_its_models(tmp_path: Path) -> None:
    rewards = {"a": [[1.0, 0.0], [0.0, 0.0]], "b": [[1.0, 1.0], [0.0, 0.0]]}
    path = store(tmp_path / "out.jsonl", rows_of_agents(rewards))
    found = find_telling_tasks([path])
    assert found.models == ["a", "b"]
    assert [task.means for task in found.tasks] == [{"a": 0.5, "b": 1.0}, {"a": 0.0, "b": 0.0}]
    other = store(tmp_path / "other.jsonl", rows_of_agents({"a": [[1.0], [1.0]]}))
    several = find_telling_tasks([path, other])
    assert several.models == ["out a", "out b", "other a"]
    assert len(several.tasks) == 2


def test_the_tasks_of_two_environments_stay_apart(tmp_path: Path) -> None:
    path = store(tmp_path / "out.jsonl", [scored_row(task, agent="xy"[task]) for task in range(2)])
    found = find_telling_tasks([path])
    assert (found.models, [task.environment for task in found.tasks]) == (["out"], ["x", "y"])


@pytest.mark.parametrize(("second", "is_equal"), [([1.0, 0.0], True), ([0.0, 0.0], False), ([1.0], False)])
def test_models_with_the_same_score_in_each_task_are_equal(
    tmp_path: Path, second: list[float], is_equal: bool
) -> None:
    runs = {"one": [1.0, 0.0], "two": second}
    paths = [
        store(
            tmp_path / f"{name}.jsonl",
            [scored_row(task, reward=reward) for task, reward in enumerate(rewards)],
        )
        for name, rewards in runs.items()
    ]
    assert find_telling_tasks(paths).has_equal_models is is_equal
