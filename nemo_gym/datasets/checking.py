"""Validation of dataset rows before a run.

A row is checked as in a run (`nemo_gym.rollouts.plan.task_rows`). In addition, its parameters are validated against the
schema of the Responses API, which a run leaves to the first typed server, and its task against that of its environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from nemo_gym.config.pydantic_problems import errors_by_path
from nemo_gym.config.tree import render_path
from nemo_gym.resources.task_schemas import normalize_task_fields
from nemo_gym.responses.schemas import ResponseCreateParams
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, FieldFault, Task, TaskShaper, read_object
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import PARAMS_KEY

__all__ = ["read_rows"]

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


def task_faults(schema: TypeAdapter[Any], row: AnyRow) -> Iterator[FieldFault]:
    """Yield the faults of a row's task."""
    fields, conflicts = normalize_task_fields(row)
    for key in conflicts:
        yield FieldFault(key, "is in the row twice, with different values")
    try:
        schema.validate_python(fields)
    except ValidationError as error:
        yield from find_field_faults(error, fields)


def find_field_faults(
    error: ValidationError, fields: Mapping[str, Any], *parents: str
) -> Iterator[FieldFault]:
    """Yield the faults of fields that pydantic refused, each with its path below `parents`."""
    for path, details in errors_by_path(error, fields).items():
        messages = dict.fromkeys(detail["msg"].removeprefix("Value error, ") for detail in details)
        yield FieldFault(render_path((*parents, *path)), "; ".join(messages))


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line numbers and rows of a file. Raises `ConfigError` for a line that is not a JSON object."""
    for number, content in read_lines(path):
        yield number, read_object(content, f"{path}:{number}", code="malformed_rows")
