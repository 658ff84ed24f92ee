"""From a task row to a task with its identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.names import (
    AGENT_REF_KEY,
    PARAMS_KEY,
    RESERVED_PREFIX,
    SKILLS_REF_KEY,
    TASK_INDEX_KEY,
    TASK_SOURCE_KEY,
)
from nemo_gym.protocol.episodes import MaterializedTask, TaskId

_IDENTITY_KEYS = ("task_id", "problem_id", "instance_id", TASK_INDEX_KEY)
"""The fields that may name a task, the strongest first."""
_NOT_DATA = frozenset({PARAMS_KEY, AGENT_REF_KEY, TASK_SOURCE_KEY, SKILLS_REF_KEY})


def materialize_task(
    row: Mapping[str, Any], *, taskset: str, task_index: int | None = None
) -> MaterializedTask[dict[str, Any]]:
    """Return the task of a row. `task_index` names it if no field does. Raises `ValueError` without any name.

    The input of a row with `responses_create_params` has the form of `SingleAgentTurnTaskInput`. Other rows are for
    environment servers with an input of their own, which gets the row's fields.
    """
    task_id = next((row[key] for key in _IDENTITY_KEYS if row.get(key) is not None), task_index)
    if task_id is None:
        raise ValueError(f"the task row has none of {', '.join(_IDENTITY_KEYS)}, so the task has no name")
    data = {
        key: value
        for key, value in row.items()
        if key not in _NOT_DATA and not key.startswith(RESERVED_PREFIX)
    }
    task_input = {PARAMS_KEY: row[PARAMS_KEY], "task_data": data} if PARAMS_KEY in row else data
    return MaterializedTask(task_id=TaskId(taskset=taskset, task_id=str(task_id)), task_input=task_input)
