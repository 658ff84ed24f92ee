"""Equal tasks of datasets: rows with the same agent, request and fields, apart from ids.

Each of them is attempted, and has an index of its own. But another copy of a task tells nothing new about other tasks,
so intervals count equal tasks as one cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from nemo_gym.config.problems import Location
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import DatasetFile, locate
from nemo_gym.rollouts.plan.task_rows import Task
from nemo_gym.rows.parts import read_task_data

_IDS = frozenset({"id", "uuid"})


def row_digest(task: Task) -> bytes:
    """Return the digest of a row's agent, request and task, without ids."""
    data = {key: value for key, value in read_task_data(task.row).items() if key not in _IDS}
    return digest_json([task.agent, task.params, data])


def digest_json(value: object) -> bytes:
    """Return the digest of a JSON value, whatever the order of its keys."""
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


@dataclass(slots=True)
class EqualTasks:
    """The rows of all datasets of a run that repeat an earlier one, by their places among all rows."""

    firsts: dict[int, int] = field(default_factory=dict)
    """The place of each repeating row → that of the first row with its task."""
    where: Location | None = None
    """The first row that repeats another."""

    def number_clusters(self, numbers: Sequence[Sequence[int]]) -> dict[int, int]:
        """Return the index of each repeating task → that of the first one. `numbers`: the indices by dataset."""
        if not self.firsts:
            return {}
        indices = [index for part in numbers for index in part]
        return {indices[place]: indices[first] for place, first in self.firsts.items()}

    def describe(self, rows: int) -> str:
        """Return a note for the user. `rows`: those of all datasets."""
        return (
            f"{len(self.firsts):,} of {rows:,} rows repeat the task of an earlier one (first: {self.where}): intervals "
            "count equal tasks as one. More rollouts of a task need no copies of its row: +num_repeats (gym: -n)"
        )


def refuse_repeated_files(files: Sequence[DatasetFile]) -> None:
    """Raise `ConfigError` if a file is named twice for the same agent and prompt."""
    seen: dict[object, DatasetFile] = {}
    for file in files:
        key = (locate(file.path).resolve(), file.agent_name, file.prompt_config)
        first = seen.setdefault(key, file)
        if first is not file:
            also = "" if first.path == file.path else f", also as {first.path}"
            raise ConfigError(
                f"the dataset {file.path} is named twice{also}",
                code="duplicate_input",
                remedy="Name each file once. For more rollouts of each task, raise +num_repeats (gym: -n).",
            )
