"""From a task row to a task with its identity."""

from __future__ import annotations

from typing import Any

from nemo_gym.protocol.episodes import MaterializedTask, TaskId
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import PARAMS_KEY, TASK_INDEX_KEY
from nemo_gym.rows.parts import read_task_data

_IDENTITY_KEYS = ("task_id", "problem_id", "instance_id", TASK_INDEX_KEY)
"""The fields that may name a task, the strongest first."""


def materialize_task(
    row: AnyRow, *, taskset: str, task_index: int | None = None
) -> MaterializedTask[dict[str, Any]]:
    """Return the task of a row. `task_index` names it if no field does. Raises `ValueError` without any name.

    The input of a row with `responses_create_params` has the form of `SingleAgentTurnTaskInput`. Other rows are for
    environment servers with an input of their own, which gets the row's fields.
    """
    task_id = next((row[key] for key in _IDENTITY_KEYS if row.get(key) is not None), task_index)
    if task_id is None:
        raise ValueError(f"the task row has none of {', '.join(_IDENTITY_KEYS)}, so the task has no name")
    data = read_task_data(row)
    task_input = {PARAMS_KEY: row[PARAMS_KEY], "task_data": data} if PARAMS_KEY in row else data
    return MaterializedTask(task_id=TaskId(taskset=taskset, task_id=str(task_id)), task_input=task_input)
