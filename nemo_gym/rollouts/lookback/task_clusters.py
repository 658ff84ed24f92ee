"""Equal tasks of stored runs: intervals count them as one cluster, as those of the run itself do.

Comparisons pair the copies of a task by their numbers. Where the runs have them in different numbers, a pair by number
would leave most of the attempts out: all attempts at such a task are those at one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

from nemo_gym.rollouts.lookback.stored import IndexedRows
from nemo_gym.rollouts.plan.task_content import task_digest
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_agent_or_unknown

TaskKey = tuple[str, int]
"""The digest of a task's content, and its number among an agent's tasks of the same content."""
AgentTask = tuple[str, TaskKey]
"""An agent, and a task that it attempts."""


class Attempted(Protocol):
    """The attempts at a task."""

    def join(self, other: Self, /) -> Self:
        """Return the attempts at both."""
        ...


AttemptedT = TypeVar("AttemptedT", bound=Attempted)


def find_uneven(runs: Sequence[Mapping[AgentTask, object]], *, whole_tasks: bool) -> set[tuple[str, str]]:
    """Return the agents and contents of the tasks that several runs have in different numbers.

    None if only the inputs of tasks are known: equal ones need not be copies.
    """
    if not whole_tasks:
        return set()
    counts = [Counter((agent, content) for agent, (content, _) in tasks) for tasks in runs]
    return {task for each in counts for task in each if len({count[task] for count in counts} - {0}) > 1}


def describe_uneven(tasks: int) -> str:
    """Return the note on tasks that runs have in different numbers."""
    return (
        f"tasks of which the runs have different numbers of copies: {tasks:,}; the attempts at all copies of such a "
        "task are those at one"
    )


def join_copies(
    tasks: Mapping[AgentTask, AttemptedT], contents: set[tuple[str, str]]
) -> dict[AgentTask, AttemptedT]:
    """Return `tasks` with the copies of the given agents and contents as one task each."""
    joined: dict[AgentTask, AttemptedT] = {}
    for (agent, (content, number)), task in tasks.items():
        key = agent, (content, 0 if (agent, content) in contents else number)
        joined[key] = joined[key].join(task) if key in joined else task
    return joined


def join_uneven(
    runs: Sequence[Mapping[AgentTask, AttemptedT]], *, whole_tasks: bool
) -> tuple[list[dict[AgentTask, AttemptedT]], int]:
    """Return the tasks of runs, those that they have in different numbers as one each, and the number of these."""
    uneven = find_uneven(runs, whole_tasks=whole_tasks)
    return [join_copies(tasks, uneven) for tasks in runs], len(uneven)


@dataclass(slots=True)
class TaskClusters:
    """The tasks of a run that repeat an earlier one."""

    firsts: dict[int, int] = field(default_factory=dict)
    """The index of each repeating task → that of the first task of its content."""
    _known: set[int] = field(default_factory=set)
    _contents: dict[tuple[str, str], int] = field(default_factory=dict)

    def __contains__(self, task: int) -> bool:
        return task in self._known

    def add(self, task: int, row: AnyRow) -> None:
        """Add a task by one of its task rows."""
        self._known.add(task)
        first = self._contents.setdefault((read_agent_or_unknown(row), task_digest(row)), task)
        if first != task:
            self.firsts[task] = first


def find_clusters(task_rows: IndexedRows) -> dict[int, int]:
    """Return the repeating tasks of a run, as `TaskClusters.firsts`."""
    clusters = TaskClusters()
    for identity in sorted(task_rows):
        if identity.task not in clusters:
            clusters.add(identity.task, task_rows.row(identity))
    return clusters.firsts
