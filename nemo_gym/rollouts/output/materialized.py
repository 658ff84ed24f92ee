"""`<stem>_materialized_inputs.jsonl`: every planned row as sent to the agent, in the order of the plan.

A few rows are written at a time, when the first of their rollouts is taken from the plan. So the file needs no extra
pass and is always a prefix of the plan. A resumed run continues after its last row.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from nemo_gym.rollouts.output._append_file import AppendFile
from nemo_gym.rollouts.output.disk import disk
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import read_line_identity
from nemo_gym.rollouts.output.packed_file import append_to
from nemo_gym.rollouts.plan.compression import build_journal_path
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.plan import Plan, PlannedAttempt
from nemo_gym.rows.identity import FinishedRollouts, RolloutId, identity_at

ROWS_A_WRITE = 16
"""A write and the check before it take 5 microseconds, 0.6 % of the time of a fast rollout."""
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
            disk().remove(build_journal_path(path))
            disk().remove(path)
        file = append_to(path)
        file.recover(files.first_free_torn())
        inputs = cls(file, identity_at(file.last_line()) or _BEFORE_ALL)
        if inputs._last < needed:
            for _ in inputs.write_from(plan):
                pass
        return inputs

    @classmethod
    def open_in_any_order(cls, files: RunFiles, plan: Iterable[PlannedAttempt]) -> MaterializedInputs:
        """Open the file of a run whose tasks are numbered out of order, and append every row that it lacks.

        Rows of tasks that the plan has no more stay.
        """
        path = files.materialized_inputs
        file = append_to(path)
        file.recover(files.first_free_torn())
        present = FinishedRollouts()
        for line in read_lines(path):
            present.add(read_line_identity(line.content, path, line.number))
        missing = (planned for planned in plan if planned.identity not in present)
        while rows := [planned.row for planned in islice(missing, ROWS_A_WRITE)]:
            file.append(b"\n".join(rows))
        return cls(file, AFTER_ALL)

    def write_from(self, plan: Iterable[PlannedAttempt]) -> Iterator[PlannedAttempt]:
        """Yield the planned attempts, writing the row of each before."""
        source = iter(plan)
        while drawn := list(islice(source, ROWS_A_WRITE)):
            self._write(drawn)
            yield from drawn

    def written_as_drawn(self, plan: Iterable[PlannedAttempt]) -> Iterator[PlannedAttempt]:
        """Yield the planned attempts of a plan in any order, writing the row of each that the file lacks before."""
        present = FinishedRollouts()
        for line in read_lines(self._file.path):
            present.add(read_line_identity(line.content, self._file.path, line.number))
        for planned in plan:
            if present.add(planned.identity):
                self._file.append(planned.row)
            yield planned

    def _write(self, drawn: Sequence[PlannedAttempt]) -> None:
        """Write the rows that the file does not have; the plan is ordered by identity."""
        missing = [planned for planned in drawn if planned.identity > self._last]
        if missing:
            self._file.append(b"\n".join(planned.row for planned in missing))
            self._last = missing[-1].identity

    def refuse_changes(self) -> None:
        """Raise `ConfigError` if another program has changed the file."""
        self._file.refuse_changes()

    def close(self) -> None:
        self._file.close()
