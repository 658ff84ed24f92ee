"""The tasks of stored runs that tell models apart, and a smaller set that ranks them the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import mean
from nemo_gym.rollouts.lookback.score_tables import ScoreTable, read_tables, split_by_agent
from nemo_gym.statistics.task_information import (
    SmallerSet,
    TaskInformation,
    TaskKind,
    choose_smaller_set,
    describe_tasks,
)


@dataclass(frozen=True, slots=True)
class TellingTask:
    """A task with its figures."""

    environment: str
    index: int
    """Its index in the first run that has it."""
    title: str
    means: Mapping[str, float]
    """The mean score by model."""
    information: TaskInformation

    def as_json(self) -> dict[str, Any]:
        """Return the task as JSON."""
        return {
            "environment": self.environment,
            "task": self.index,
            "question": self.title,
            "means": dict(self.means),
            **asdict(self.information),
        }


@dataclass(frozen=True, slots=True)
class TellingTasks:
    """All tasks of some runs."""

    models: list[str]
    tasks: list[TellingTask]
    smaller: SmallerSet | None
    """Places in `tasks`."""
    notes: list[str]
    """The sentences of the runs' accounts."""

    @property
    def has_equal_models(self) -> bool:
        """Return whether each task has the same mean score of all models, so that nothing ranks these."""
        return all(
            len(task.means) == len(self.models) and len({*task.means.values()}) == 1 for task in self.tasks
        )

    def count_kinds(self) -> dict[TaskKind, int]:
        """Return the number of tasks of each kind."""
        counts = Counter(task.information.kind for task in self.tasks)
        return {kind: counts[kind] for kind in TaskKind}


def find_telling_tasks(paths: Sequence[Path], *, score: str | None = None) -> TellingTasks:
    """Return the figures of the tasks of runs, one run a model. Scores have to lie in [0, 1].

    If several agents of a run attempt a task, each of them is a model.

    Raises `ConfigError` for a run that is missing or damaged, and for scores outside.
    """
    tables = read_tables(paths, score)
    if any(table.shares_tasks for table in tables):
        tables = [model for table in tables for model in _split(table, is_alone=len(tables) == 1)]
    for table in tables:
        _refuse_others(table)
    places = {
        (name, key): task
        for table in reversed(tables)
        for name, tasks in table.environments.items()
        for key, task in tasks.items()
    }
    order = sorted(places, key=lambda place: (place[0], places[place].index))
    rewards = [
        {
            table.label: table.environments[name][key].scores
            for table in tables
            if key in table.environments.get(name, {})
        }
        for name, key in order
    ]
    tasks = [
        TellingTask(
            place[0],
            places[place].index,
            places[place].title,
            {model: mean(values) for model, values in each.items()},
            information,
        )
        for place, each, information in zip(order, rewards, describe_tasks(rewards), strict=True)
    ]
    notes = list(dict.fromkeys(note for table in tables for note in table.notes))
    return TellingTasks([table.label for table in tables], tasks, choose_smaller_set(rewards), notes)


def _split(table: ScoreTable, *, is_alone: bool) -> list[ScoreTable]:
    models = split_by_agent(table, "all agents")
    for model in models:
        model.label = model.label if is_alone else f"{table.label} {model.label}"
    return models


def _refuse_others(table: ScoreTable) -> None:
    for name, tasks in table.environments.items():
        for task in tasks.values():
            wrong = next((score for score in task.scores if not 0 <= score <= 1), None)
            if wrong is not None:
                raise ConfigError(
                    f"{table.path}: task {task.index} of {name} has the score {wrong:g}, outside 0 to 1",
                    code="score_out_of_range",
                    remedy="Difficulty is a share of the largest score. Choose a score of 0 to 1 with +score=.",
                )
