"""Validation of dataset rows before a run.

A row is checked as in a run (`nemo_gym.rollouts.plan.task_rows`). In addition, its parameters are validated against the
schema of the Responses API, which a run leaves to the first typed server, and its task against that of its environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from nemo_gym.datasets.task_schemas import find_field_faults, task_faults
from nemo_gym.responses.schemas import ResponseCreateParams
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, Task, TaskShaper, read_object
from nemo_gym.rows.keys import PARAMS_KEY

_MOST_FAULTS = 5
"""Faults reported per row."""


def check_line(shaper: TaskShaper, line: bytes, schema: TypeAdapter[Any] | None = None) -> Task:
    """Return the task of a line. `schema`: that of its environment. Raises `FaultyRowError` with its faults."""
    task = shaper.shape(line)
    faults = [] if schema is None else list(task_faults(schema, task.row))
    try:
        ResponseCreateParams.model_validate(task.params)
    except ValidationError as error:
        faults += find_field_faults(error, task.params, PARAMS_KEY)
    if faults:
        raise FaultyRowError(*faults[:_MOST_FAULTS])
    return task


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line numbers and rows of a file. Raises `ConfigError` for a line that is not a JSON object."""
    for number, content in read_lines(path):
        yield number, read_object(content, f"{path}:{number}", code="malformed_rows")
