"""`<stem>_materialized_inputs.jsonl`: every planned row as the agent is sent it, in the order of the plan.

A row is written when its rollout is drawn from the plan, so that the file costs no pass of its own and is always a
beginning of the plan. A resumed run goes on behind the last row that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nemo_gym.rollouts.output._append_file import AppendFile
from nemo_gym.rollouts.output._packed_file import append_to
from nemo_gym.rollouts.output.disk import disk
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.plan.compression import journal_of
from nemo_gym.rollouts.plan.identity import RolloutId, identity_at
from nemo_gym.rollouts.plan.plan import Plan, PlannedAttempt

_BEFORE_ALL = RolloutId(-1, -1)


class MaterializedInputs:
    """The file, open for the rows that it does not have yet."""

    def __init__(self, file: AppendFile, last: RolloutId = _BEFORE_ALL) -> None:
        self._file = file
        self._last = last

    @classmethod
    def open(
        cls, files: RunFiles, plan: Plan, *, needed: RolloutId, changed: bool = False
    ) -> MaterializedInputs:
        """Go on with the file of a run.

        It is written anew from the whole `plan` when that has `changed`, or when the file does not reach as far as
        `needed`, the last rollout that is finished.
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
        """Write the row unless it is there; the plan is in the order of identities."""
        if planned.identity > self._last:
            self._file.append(planned.row)
            self._last = planned.identity

    def written_from(self, plan: Iterable[PlannedAttempt]) -> Iterator[PlannedAttempt]:
        """`plan`, each row written as it is drawn."""
        for planned in plan:
            self.add(planned)
            yield planned

    def close(self) -> None:
        self._file.close()
