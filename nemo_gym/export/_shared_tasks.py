"""The tasks that several runs share, by the content of their task rows.

A task's number is only its place in the dataset of its run. Two runs have the same task if their task rows are equal:
the input and all fields of the environment, such as the expected answer. The agent, the model and the sampling may
differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_content import task_digest
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rows.identity import identity_at, identity_in

_REMEDY = "Without +options.across_runs=true, each input is exported by itself."


class SharedTasks:
    """The tasks of several runs."""

    def __init__(self, runs: Sequence[Path]) -> None:
        """`runs`: files of scored rows. Raises `ConfigError` for a run without its task rows."""
        self._keys = {run: _read_keys(run) for run in runs}

    def key(self, run: Path, task: str, line: int) -> str:
        """Return the key in all runs of a task, by its number in `run`. Raises `ConfigError` if it has none."""
        if task not in self._keys[run]:
            raise ConfigError(
                f"{run}:{line}: its task is not in {RunFiles.from_output(run).materialized_inputs}",
                code="unknown_task",
                remedy=_REMEDY,
            )
        return self._keys[run][task]


def _read_keys(run: Path) -> dict[str, str]:
    """Return a key for each task by its number: its digest, and its place among equal tasks of the run."""
    path = RunFiles.from_output(run).materialized_inputs
    if not holds_text(path):
        raise ConfigError(
            f"{run} has no task rows beside it: there is no {path}", code="no_task_rows", remedy=_REMEDY
        )
    digests: dict[int, str] = {}
    for line in read_lines(path):
        identity = identity_at(line.content, f"{path}:{line.number}")
        if identity is not None and identity.task in digests:
            continue
        place = f"{path}:{line.number}"
        row = read_object(line.content, place, code="damaged_input", remedy=_REMEDY)
        if (identity := identity_in(row)) is None:
            message = f"{place}: the task row has no `_ng_task_index`"
            raise ConfigError(message, code="damaged_input", remedy=_REMEDY)
        digests[identity.task] = task_digest(row)
    seen: Counter[str] = Counter()
    keys = {}
    for task in sorted(digests):
        keys[str(task)] = f"{digests[task]}:{seen[digests[task]]}"
        seen[digests[task]] += 1
    return keys
