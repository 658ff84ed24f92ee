"""The tasks that are submitted to a session: NDJSON, `{"row": {…}, "key": "…", "round": 0}` on each line.

A key names a task over restarts. Without one, the SHA-256 of the row, as given and in canonical JSON, is its key. The
same key in a later round is another group of the same task, such as in the next epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import InputError
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, Task, TaskShaper, describe_kind
from nemo_gym.rollouts.run.required_servers import require_agents

_SHOWN = 20
_FIELDS = frozenset({"row", "key", "round"})


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """A task with its key."""

    key: str
    round: int
    digest: str
    """Of the row as given."""
    task: Task


def read_tasks(body: bytes, shaper: TaskShaper, config: Mapping[str, Any]) -> list[SubmittedTask]:
    """Parse the lines of a request. Raises `InputError` with the problems of all lines."""
    problems: list[str] = []
    tasks: list[SubmittedTask] = []
    for number, line in enumerate(body.splitlines()):
        if not line or line.isspace():
            continue
        try:
            tasks.append(_read_task(orjson.loads(line), shaper, f"line {number + 1}"))
        except orjson.JSONDecodeError as error:
            problems.append(f"line {number + 1} is not JSON: {error.msg}")
        except _FaultyTaskError as error:
            problems += error.problems
    problems += _find_reused_keys(tasks)
    try:
        require_agents({each.task.agent for each in tasks}, config)
    except ConfigErrors as errors:
        problems += map(str, errors.problems)
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise InputError(
            f"the tasks are not valid: {'; '.join(problems[:_SHOWN])}{more}",
            code="invalid_tasks",
            remedy='Each line is {"row": {…}}, with `key` and `round` if wanted; docs/train_asynchronously.md.',
        )
    return tasks


def _find_reused_keys(tasks: list[SubmittedTask]) -> list[str]:
    digests: dict[str, str] = {}
    return [
        f"the key {each.key!r} stands for two tasks"
        for each in tasks
        if digests.setdefault(each.key, each.digest) != each.digest
    ]


class _FaultyTaskError(Exception):
    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _read_task(given: Any, shaper: TaskShaper, place: str) -> SubmittedTask:
    if not isinstance(given, dict):
        raise _FaultyTaskError(f"{place} must be an object, not {describe_kind(given)}")
    problems = [f"{place}: there is no field {name!r}" for name in given if name not in _FIELDS]
    row, key, round = given.get("row"), given.get("key"), given.get("round", 0)
    if key is not None and (not isinstance(key, str) or not key):
        problems.append(f"{place}: `key` must be a text that is not empty, not {key!r}")
    if type(round) is not int or not 0 <= round < 1 << 31:
        problems.append(f"{place}: `round` must be a number from 0, not {round!r}")
    if not isinstance(row, dict):
        problems.append(f"{place}: `row` must be an object, not {describe_kind(row)}")
    if problems or not isinstance(row, dict):
        raise _FaultyTaskError(*problems)
    digest = compute_digest(row)
    try:
        return SubmittedTask(key or digest, round, digest, shaper.shape_row(row))
    except FaultyRowError as error:
        raise _FaultyTaskError(
            *(f"{place}: row{'.' if each.field else ''}{each.field} {each.message}" for each in error.faults)
        ) from error


def compute_digest(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a row in canonical JSON."""
    try:
        return hashlib.sha256(orjson.dumps(row, option=orjson.OPT_SORT_KEYS)).hexdigest()
    except TypeError as error:  # orjson reads more levels than it writes
        raise _FaultyTaskError(f"a row cannot be written: {error}") from error
