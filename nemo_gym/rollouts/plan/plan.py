"""The plan of a run: every (task, repeat) once, in order, read from the dataset on demand.

The repeats of a task are consecutive, so groups finish early and engines reuse their prefix cache. A plan over a
million rows takes the memory of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from nemo_gym.config.prompts import load_prompt_config
from nemo_gym.names import ATTEMPT_INDEX_KEY
from nemo_gym.rollouts.plan.dataset import DatasetFile, locate, read_lines
from nemo_gym.rollouts.plan.identity import FinishedRollouts, RolloutId
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, Task, TaskShaper


@dataclass(frozen=True, slots=True)
class PlannedAttempt:
    """One attempt at a rollout: the agent and the row that it receives."""

    identity: RolloutId
    agent: str
    row: bytes
    """The task row as JSON, starting with its identity."""
    attempt_index: int = 0

    def body(self) -> bytes:
        """Return the body of `POST /run`: the row, with the attempt index after its identity."""
        head = self.identity.head()
        return b'%b"%b":%d,%b' % (head, ATTEMPT_INDEX_KEY.encode(), self.attempt_index, self.row[len(head) :])

    def again(self) -> PlannedAttempt:
        """Return the next attempt at the same rollout."""
        return replace(self, attempt_index=self.attempt_index + 1)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The source of a plan. Every field influences results and is part of the run's identity."""

    datasets: tuple[DatasetFile, ...]
    limit: int | None = None
    """Rows taken from each file; None for all."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """`+responses_create_params.<field>=…`."""
    add_seed: bool = False
    """Use the number of each repeat as its sampling seed."""


class Plan:
    """An iterable of the first attempts of a run. Each iteration reads the dataset again."""

    def __init__(
        self,
        settings: PlanSettings,
        *,
        first_tasks: tuple[int, ...] = (0,),
        finished: FinishedRollouts | None = None,
    ) -> None:
        """`first_tasks`: the index of each file's first task. `finished`: rollouts to skip."""
        self._settings = settings
        self._first_tasks = first_tasks
        self._finished = finished or FinishedRollouts()
        self._shapers = [shaper_of(file, settings) for file in settings.datasets]

    def __iter__(self) -> Iterator[PlannedAttempt]:
        for file, shaper, first in zip(
            self._settings.datasets, self._shapers, self._first_tasks, strict=True
        ):
            lines = islice(read_lines(locate(file.path)), self._settings.limit)
            for index, line in enumerate(lines, start=first):
                pending = self._pending(index, file.num_repeats)
                if not pending:
                    continue
                try:
                    task = shaper.shape(line.content)
                except FaultyRowError:
                    continue  # reported by the first pass; a run gets here only if faulty rows are skipped
                yield from attempts_of(task, pending, self._settings.add_seed)

    def _pending(self, task: int, repeats: int) -> list[RolloutId]:
        every = (RolloutId(task, repeat) for repeat in range(repeats))
        return [identity for identity in every if identity not in self._finished]


def attempts_of(task: Task, identities: Iterable[RolloutId], add_seed: bool) -> Iterator[PlannedAttempt]:
    """Yield the first attempt at each of a task's rollouts."""
    for identity in identities:
        encoded = task.with_seed(identity.repeat) if add_seed else task.encoded
        yield PlannedAttempt(identity, task.agent, identity.head() + encoded[1:])


def shaper_of(file: DatasetFile, settings: PlanSettings) -> TaskShaper:
    """Return the shaper of the rows of `file`. Raises `ConfigError` for a prompt that cannot be loaded."""
    prompt = load_prompt_config(str(file.prompt_config)) if file.prompt_config else None
    return TaskShaper(file.agent_name, settings.overrides, prompt, needs_seed=settings.add_seed)
