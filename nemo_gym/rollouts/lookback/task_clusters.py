"""Equal tasks of a stored run: intervals count them as one cluster, as those of the run itself do."""

from __future__ import annotations

from dataclasses import dataclass, field

from nemo_gym.rollouts.lookback.stored import IndexedRows
from nemo_gym.rollouts.plan.task_content import task_digest
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_agent_or_unknown


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
