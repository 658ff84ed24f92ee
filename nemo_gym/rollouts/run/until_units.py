"""The units of a run with `until`: a task for one agent, a task for a pair of agents, or all repeats of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemo_gym.config.problems import did_you_mean
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.equal_tasks import row_digest
from nemo_gym.rollouts.plan.task_rows import RepeatedTask
from nemo_gym.rollouts.run.until_target import UntilTarget
from nemo_gym.rows.identity import RolloutId

DRAWS_OF_A_PAIR = 50
"""The most draws of a pair for each task, by default."""


@dataclass(frozen=True, slots=True)
class DrawUnit:
    """The unit of a draw."""

    task: int
    agents: int
    """The agents of the task."""
    places: tuple[int, ...]
    """The agents that attempt a draw, by their places among those of the task: one, or a pair."""
    repeats: int = 1
    """The rollouts of an agent in a draw."""

    @property
    def size(self) -> int:
        """Return the rollouts of a draw."""
        return len(self.places) * self.repeats

    def rollouts(self, repeat: int) -> list[RolloutId]:
        """Return the rollouts of the draw with this number, those of the first agent first."""
        first = repeat * self.repeats
        return [
            RolloutId(self.task, each * self.agents + place)
            for place in self.places
            for each in range(first, first + self.repeats)
        ]

    def value(self, rewards: Sequence[tuple[float, float]]) -> tuple[float, float]:
        """Return the bounds of a draw's value in [0, 1] from those of its rewards.

        The value is the mean reward; for a pair (1 + difference of the means) / 2.
        """
        means = [
            tuple(sum(bounds[side] for bounds in part) / self.repeats for side in (0, 1))
            for part in (rewards[: self.repeats], rewards[self.repeats :])
            if part
        ]
        low, high = means[0]
        if len(means) == 1:
            return low, high
        return (1 + low - means[1][1]) / 2, (1 + high - means[1][0]) / 2


def find_units(
    target: UntilTarget, tasks: Sequence[tuple[int, Sequence[RepeatedTask]]], repeats: int
) -> list[DrawUnit]:
    """Return what can be drawn. Raises `ConfigError` if there is nothing, or too little to compare.

    With `generalize` equal tasks are drawn once: another copy tells nothing new about all tasks like these.
    """
    number = repeats if target.generalizes else 1
    if target.generalizes:
        distinct = {row_digest(copies[0].task): (task, copies) for task, copies in reversed(tasks)}
        tasks = list(reversed(distinct.values()))
    if target.pair is None:
        units = [
            DrawUnit(task, len(copies), (place,), number)
            for task, copies in tasks
            for place in range(len(copies))
        ]
    else:
        units = [
            DrawUnit(task, len(copies), places, number)
            for task, copies in tasks
            if (places := _find_pair(copies, target.pair)) is not None
        ]
        if not units:
            raise _no_pair(tasks, target.pair)
    if not units:
        raise ConfigError("there is no task to draw", code="until")
    return units


def count_most_draws(target: UntilTarget, units: Sequence[DrawUnit]) -> int | None:
    """Return the most draws of a run; None for no bound. A pair that does not differ has to end some time."""
    most = target.most_rollouts // units[0].size if target.most_rollouts is not None else None
    if target.generalizes:
        return len(units) if most is None else min(most, len(units))
    return DRAWS_OF_A_PAIR * len(units) if most is None and target.pair is not None else most


def find_bound(target: UntilTarget, units: Sequence[DrawUnit], draws: int) -> str | None:
    """Return what ends a run after this number of draws, as the subject of a sentence; None for nothing."""
    most = count_most_draws(target, units)
    if most is None or draws < most:
        return None
    if target.most_rollouts is not None and most == target.most_rollouts // units[0].size:
        return f"+max_rollouts={target.most_rollouts}"
    if target.generalizes:
        return f"the number of tasks, {len(units)},"
    return f"the bound of {DRAWS_OF_A_PAIR} rollouts of each task by each agent"


def _find_pair(copies: Sequence[RepeatedTask], pair: tuple[str, str]) -> tuple[int, int] | None:
    agents = [copy.task.agent for copy in copies]
    return (agents.index(pair[0]), agents.index(pair[1])) if set(pair) <= set(agents) else None


def _no_pair(tasks: Sequence[tuple[int, Sequence[RepeatedTask]]], pair: tuple[str, str]) -> ConfigError:
    agents = sorted({copy.task.agent for _, copies in tasks for copy in copies})
    unknown = [name for name in pair if name not in agents]
    hints = [hint for name in unknown if (hint := did_you_mean(name, agents))]
    names = " and ".join(unknown or pair)
    what = f"no task is attempted by {'' if unknown else 'both '}{names}"
    return ConfigError(
        f"+until: {what}; the agents of these tasks: {', '.join(agents)}",
        code="until",
        remedy=" ".join(
            [*hints, "Without +fan_out both agents attempt each row (docs/how_many_rollouts.md)."]
        ),
    )
