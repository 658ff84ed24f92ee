"""The plan of a run: every (task, repeat) once, in order, drawn from the dataset as it is read.

Repeats of a task follow one another, so that a group finishes early and an engine's prefix cache is used. Nothing
of the dataset is kept: a plan over a million rows takes the memory of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """One attempt at one rollout: what is sent to which agent."""

    identity: RolloutId
    agent: str
    row: bytes
    """The task row as JSON, led by its identity."""
    attempt_index: int = 0

    def body(self) -> bytes:
        """The body of `POST /run`: the row, with the attempt's number after its identity."""
        head = self.identity.head()
        return b'%b"%b":%d,%b' % (head, ATTEMPT_INDEX_KEY.encode(), self.attempt_index, self.row[len(head) :])

    def again(self) -> PlannedAttempt:
        return replace(self, attempt_index=self.attempt_index + 1)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The source of a plan. All of it shapes results, so all of it is part of the run's identity."""

    datasets: tuple[DatasetFile, ...]
    limit: int | None = None
    """Rows taken from each file; None for all."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """`+responses_create_params.<field>=…`."""
    add_seed: bool = False
    """Give each repeat its number as the seed of sampling."""


class Plan:
    """Iterates over the attempts of a run. Each iteration reads the dataset anew."""

    def __init__(
        self,
        settings: PlanSettings,
        *,
        first_tasks: tuple[int, ...] = (0,),
        finished: FinishedRollouts | None = None,
    ) -> None:
        """`first_tasks`: the number of each file's first row. `finished`: rollouts to leave out."""
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
                open_ids = self._open_ids(index, file.num_repeats)
                if not open_ids:
                    continue
                try:
                    task = shaper.shape(line.content)
                except FaultyRowError:
                    continue  # reported by the first pass, which ends the run unless faulty rows are to be skipped
                yield from self._attempts(task, open_ids)

    def _open_ids(self, task: int, repeats: int) -> list[RolloutId]:
        every = (RolloutId(task, repeat) for repeat in range(repeats))
        return [identity for identity in every if identity not in self._finished]

    def _attempts(self, task: Task, identities: list[RolloutId]) -> Iterator[PlannedAttempt]:
        for identity in identities:
            encoded = task.with_seed(identity.repeat) if self._settings.add_seed else task.encoded
            yield PlannedAttempt(identity, task.agent, identity.head() + encoded[1:])


def shaper_of(file: DatasetFile, settings: PlanSettings) -> TaskShaper:
    """The shaper that turns the rows of `file` into tasks. Raises `ConfigError` for a prompt that cannot be loaded."""
    prompt = load_prompt_config(str(file.prompt_config)) if file.prompt_config else None
    return TaskShaper(file.agent_name, settings.overrides, prompt, needs_seed=settings.add_seed)
