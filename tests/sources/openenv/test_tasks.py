"""Rows as tasks: splits, and the choice of a reset."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import ConfigError, InputError
from nemo_gym.rows.forms import TaskRow
from nemo_gym.sources.openenv.tasks import TaskSplits
from tests.sources.openenv.environments import build_tasks


def read_level(arguments: dict[str, Any], turn: int = 0) -> Any:
    return build_tasks().choose(arguments, turn).get("level")


def test_a_split_of_another_name_is_for_validation() -> None:
    assert build_tasks().list_splits() == [
        {"name": "train", "type": "train"},
        {"name": "mine", "type": "validation"},
    ]


def test_a_reset_names_its_task_by_place_or_by_seed_or_takes_the_next() -> None:
    assert read_level({"split": "train", "index": 2, "seed": 1}) == 2
    assert [read_level({"seed": seed}) for seed in (0, 1, 5)] == [0, 1, 2]
    assert [read_level({}, turn) for turn in range(4)] == [0, 1, 2, 0]
    assert build_tasks().choose({"split": "mine"}, 7)["turns"] == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"split": "dev"}, "no split 'dev', but train, mine"),
        ({"index": 3}, "split 'train' has no task 3, but 3"),
        ({"index": -1}, "`index` is -1"),
        ({"index": "1"}, "`index` is '1'"),
        ({"seed": -4}, "`seed` is -4"),
        ({"split": 3}, "`split` is 3"),
    ],
)
def test_a_reset_of_no_task_is_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        build_tasks().choose(arguments)


def test_rows_without_an_input_and_no_rows_are_refused() -> None:
    with pytest.raises(ConfigError, match="Row 0 of train has no"):
        TaskSplits({"train": [TaskRow({"question": "?"})]})
    with pytest.raises(ConfigError, match="no task rows"):
        TaskSplits({"train": []})
