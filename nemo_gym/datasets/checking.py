"""Whether a line of a dataset is a task that every server will accept.

What a run asks of a row (`nemo_gym.rollouts.plan.task_rows`) is asked here too; beyond it, the parameters are held
against the schema of the Responses API, which in a run only the first typed server would do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nemo_gym.failures import ConfigError
from nemo_gym.names import PARAMS_KEY
from nemo_gym.responses.schemas import ResponseCreateParams
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, FieldFault, Task, TaskShaper, parse_row

_MOST_FAULTS = 5
"""Of one row; a message that fits no kind of item has a fault for each of them."""


def check_line(shaper: TaskShaper, line: bytes) -> Task:
    """The task of a line. Raises `FaultyRowError` with the faults of it."""
    task = shaper.shape(line)
    try:
        ResponseCreateParams.model_validate(task.params)
    except ValidationError as error:
        faults = list(dict.fromkeys(_faults_of(error)))
        raise FaultyRowError(*faults[:_MOST_FAULTS]) from error
    return task


def _faults_of(error: ValidationError) -> Iterator[FieldFault]:
    for problem in error.errors(include_url=False, include_input=False):
        # Of a place in a union, the names of the branches that were tried say nothing to the writer of the row.
        place = [part for part in problem["loc"] if isinstance(part, int) or part.islower()]
        names = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
        yield FieldFault(f"{PARAMS_KEY}{names}", problem["msg"].removeprefix("Value error, "))


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file with the numbers of their lines. Raises `ConfigError` for a line that is no JSON object."""
    for number, content in read_lines(path):
        try:
            yield number, parse_row(content)
        except FaultyRowError as error:
            raise ConfigError(
                f"{path}:{number}: the row {error.faults[0].message}", code="malformed_rows"
            ) from error
