"""The plan of a run: every (task, repeat) once, in order, read from the dataset on demand.

The repeats of a task are consecutive, so groups finish early and engines reuse their prefix cache. Settings can choose
another order. A plan over a million rows takes the memory of one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.inputs.prompts import load_row_template
from nemo_gym.rollouts.plan.dataset import DatasetFile, locate, read_lines
from nemo_gym.rollouts.plan.routing import Routing
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, RepeatedTask, TaskShaper
from nemo_gym.rows.identity import FinishedRollouts, RolloutId, attempt_member


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
        return head + attempt_member(self.attempt_index) + self.row[len(head) :]

    def again(self) -> PlannedAttempt:
        """Return the next attempt at the same rollout."""
        return replace(self, attempt_index=self.attempt_index + 1)


class RowPlace(NamedTuple):
    """The place of a row."""

    file: Path
    line: int
    """Counted from 1."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The source of a plan. Every field influences results and is part of the run's identity, apart from `unfit`."""

    datasets: tuple[DatasetFile, ...]
    limit: int | None = None
    """Rows taken from each file; None for all."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """`+responses_create_params.<field>=…`."""
    add_seed: bool = False
    """Use the number of each repeat as its sampling seed."""
    routing: Routing = field(default_factory=Routing)
    skills_ref: Mapping[str, Any] | None = None
    """The skills of the run, which every row names."""
    interleave_repeats: bool = False
    """Plan the first repeat of every task before the second. The dataset is read once per repeat."""
    unfit: Mapping[RowPlace, str] = field(default_factory=dict)
    """Rows that are left out like malformed ones, because their environments cannot read them, each with the reason."""

    def sort_by_identity(self) -> PlanSettings:
        """Return the settings of the same plan in the order of its identities."""
        return replace(self, interleave_repeats=False)


class _Planned(NamedTuple):
    """A task with pending rollouts."""

    number: int
    copies: Sequence[RepeatedTask]


class Plan:
    """An iterable of the first attempts of a run. Each iteration reads the dataset again."""

    def __init__(
        self,
        settings: PlanSettings,
        *,
        numbers: Sequence[Sequence[int]] = (range(sys.maxsize),),
        finished: FinishedRollouts | None = None,
        durations: Mapping[int, float] | None = None,
    ) -> None:
        """`numbers`: the indices of each file's tasks, in the order of its rows. `finished`: rollouts to skip.

        `durations`: seconds of earlier rollouts by task. The pending rollouts of these tasks come first, the longest
        at the start; their rows are held in memory.
        """
        self._settings = settings
        self._numbers = numbers
        self._finished = finished or FinishedRollouts()
        self._durations = durations or {}
        self._shapers = [build_shaper(file, settings) for file in settings.datasets]

    def __iter__(self) -> Iterator[PlannedAttempt]:
        every, known = self._every_repeat(), self._durations
        longest = [task for task in self._tasks(every) if task.number in known] if known else []
        for task in sorted(longest, key=lambda each: -known[each.number]):
            yield from self._attempts(task, every)
        rounds = (range(repeat, repeat + 1) for repeat in every)
        for repeats in rounds if self._settings.interleave_repeats else (every,):
            for task in self._tasks(repeats):
                if task.number not in known:
                    yield from self._attempts(task, repeats)

    def read_tasks(self) -> Iterator[tuple[int, Sequence[RepeatedTask]]]:
        """Yield the index of each task, and the task once for each of its agents."""
        return ((task.number, task.copies) for task in self._tasks(self._every_repeat()))

    def _every_repeat(self) -> range:
        routing, files = self._settings.routing, self._settings.datasets
        return range(max((routing.most_repeats(file.num_repeats) for file in files), default=0))

    def _tasks(self, repeats: range) -> Iterator[_Planned]:
        """Yield the tasks that have pending rollouts among `repeats`."""
        is_uniform = self._settings.routing.is_uniform
        for file, shaper, numbers in zip(self._settings.datasets, self._shapers, self._numbers, strict=True):
            lines = islice(read_lines(locate(file.path)), self._settings.limit)
            for index, line in zip(
                numbers, lines, strict=False
            ):  # rows added since the check are not planned
                if self._settings.unfit and (file.path, line.number) in self._settings.unfit:
                    continue
                if is_uniform and not self._is_pending(index, file.num_repeats, repeats):
                    continue  # the row needs no parsing
                try:
                    yield _Planned(index, shaper.tasks(line.content, file.num_repeats))
                except FaultyRowError:
                    continue  # reported by the first pass; a run gets here only if faulty rows are skipped

    def _is_pending(self, index: int, num_repeats: int, repeats: range) -> bool:
        wanted = range(repeats.start, min(repeats.stop, num_repeats))
        return any(RolloutId(index, repeat) not in self._finished for repeat in wanted)

    def _attempts(self, task: _Planned, repeats: range) -> Iterator[PlannedAttempt]:
        for attempt in plan_attempts(task.number, task.copies, self._settings.add_seed, repeats):
            if attempt.identity not in self._finished:
                yield attempt


def plan_attempts(
    index: int, copies: Sequence[RepeatedTask], add_seed: bool, repeats: range | None = None
) -> Iterator[PlannedAttempt]:
    """Yield the first attempt at each rollout of a task, or those among `repeats`.

    The rollouts of several agents are numbered in turn, so that more repeats change no number.
    """
    for repeat in repeats if repeats is not None else range(max(copy.repeats for copy in copies)):
        for place, (task, number) in enumerate(copies):
            if repeat < number:
                identity = RolloutId(index, repeat * len(copies) + place)
                encoded = task.encode_with_seed(repeat) if add_seed else task.encoded
                yield PlannedAttempt(identity, task.agent, identity.head() + encoded[1:])


def build_shaper(file: DatasetFile, settings: PlanSettings) -> TaskShaper:
    """Return the shaper of the rows of `file`. Raises `ConfigError` for a prompt template that cannot be used."""
    prompt = load_row_template(str(file.prompt_config)) if file.prompt_config else None
    return TaskShaper(
        file.agent_name,
        settings.overrides,
        prompt,
        needs_seed=settings.add_seed,
        routing=settings.routing,
        skills_ref=settings.skills_ref,
    )
