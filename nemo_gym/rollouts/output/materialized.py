"""`<stem>_materialized_inputs.jsonl`: every planned row as sent to the agent, in the order of the plan.

A row is written when its rollout is taken from the plan, so the file needs no extra pass and is always a prefix of the
plan. A resumed run continues after its last row.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from nemo_gym.rollouts.output._append_file import AppendFile
from nemo_gym.rollouts.output._packed_file import append_to
from nemo_gym.rollouts.output.disk import disk
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.plan.compression import journal_of
from nemo_gym.rollouts.plan.identity import RolloutId, identity_at
from nemo_gym.rollouts.plan.plan import Plan, PlannedAttempt

_BEFORE_ALL = RolloutId(-1, -1)
AFTER_ALL = RolloutId(sys.maxsize, 0)
"""The file is written whole on opening, for plans that are not in the order of identities."""


class MaterializedInputs:
    """The open file; rows that it already has are not written again."""

    def __init__(self, file: AppendFile, last: RolloutId = _BEFORE_ALL) -> None:
        self._file = file
        self._last = last

    @classmethod
    def open(
        cls, files: RunFiles, plan: Plan, *, needed: RolloutId, changed: bool = False
    ) -> MaterializedInputs:
        """Open the file of a run.

        It is rewritten from the whole `plan` if that has `changed`, or if the file ends before `needed`, the last
        finished rollout.
        """
        path = files.materialized_inputs
        if changed:
            disk().remove(journal_of(path))
            disk().remove(path)
        file = append_to(path)
        file.recover(files.first_free_torn())
        inputs = cls(file, identity_at(file.last_line()) or _BEFORE_ALL)
        if inputs._last < needed:
            for planned in plan:
                inputs.add(planned)
        return inputs

    def add(self, planned: PlannedAttempt) -> None:
        """Write the row unless the file has it; the plan is ordered by identity."""
        if planned.identity > self._last:
            self._file.append(planned.row)
            self._last = planned.identity

    def written_from(self, plan: Iterable[PlannedAttempt]) -> Iterator[PlannedAttempt]:
        """Yield the planned attempts, writing the row of each."""
        for planned in plan:
            self.add(planned)
            yield planned

    def refuse_changes(self) -> None:
        """Raise `ConfigError` if another program has changed the file."""
        self._file.refuse_changes()

    def close(self) -> None:
        self._file.close()
