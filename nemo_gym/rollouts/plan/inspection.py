"""The first pass over the datasets: finds every malformed row and hashes the content before a run starts.

All faults are counted; the first ones are kept with file, line and field. The pass holds one line in memory.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise

from nemo_gym.config.problems import Location
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import DatasetFile, locate, read_lines
from nemo_gym.rollouts.plan.equal_tasks import EqualTasks, refuse_repeated_files, row_digest
from nemo_gym.rollouts.plan.plan import PlanSettings, RowPlace, build_shaper
from nemo_gym.rollouts.plan.row_forms import refuse_other_form
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, FieldFault, RepeatedTask, RowFaults
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.verdict import has_verdict

_REPEATS = "num_repeats"


@dataclass(slots=True)
class FileInspection:
    """The counts and the digest of one dataset file."""

    file: DatasetFile
    sha256: str
    """SHA-256 of the rows taken, decompressed and stripped."""
    rows: int
    """Rows taken: all rows of the file, up to the limit."""
    invalid: int
    rollouts: int
    bounds: array[int] | None = None
    """A bound of each row's rollout numbers; None if `num_repeats` of the file is the bound of all."""

    def has_rollout(self, row: int, repeat: int) -> bool:
        """Return whether the plan has this rollout. `row` counts from 0 in this file."""
        return 0 <= row < self.rows and repeat < (self.bounds[row] if self.bounds else self.file.num_repeats)


@dataclass(slots=True)
class DatasetInspection:
    """The counts, faults and agents of all datasets of a run."""

    files: list[FileInspection] = field(default_factory=list)
    faults: RowFaults = field(default_factory=RowFaults)
    agents: Counter[str] = field(default_factory=Counter)
    """Tasks per agent."""
    first_rows: dict[str, Location] = field(default_factory=dict)
    """The first row that names each agent."""
    rollouts_of: Counter[str] = field(default_factory=Counter)
    """Rollouts per agent."""
    rows_with_reserved_keys: int = 0
    rows_with_repeats: int = 0
    """Rows that have `num_repeats`, which is a key of datasets."""
    environment_notes: list[str] = field(default_factory=list)
    """Notes of environments on rows that they could read."""
    numbering: Sequence[Sequence[int]] | None = None
    """The indices of each file's tasks, in the order of its rows, if they do not count from 0."""
    tools: dict[tuple[str, str], Location] = field(default_factory=dict)
    """The first row that declares each tool, by agent and name."""
    equal: EqualTasks = field(default_factory=EqualTasks)
    results: Location | None = None
    """The first row that is the result of an attempt, scored or failed."""

    @property
    def invalid(self) -> int:
        return sum(file.invalid for file in self.files)

    @property
    def rollouts(self) -> int:
        """Rollouts of the plan."""
        return sum(file.rollouts for file in self.files)

    @property
    def clusters(self) -> Mapping[int, int]:
        """The index of each task that repeats an earlier one → the index of the first."""
        return self.equal.number_clusters(self.numbers)

    @property
    def numbers(self) -> Sequence[Sequence[int]]:
        """The indices of each file's tasks, in the order of its rows. By default they count across all files."""
        if self.numbering is not None:
            return self.numbering
        ends = list(accumulate((file.rows for file in self.files), initial=0))
        return [range(first, end) for first, end in pairwise(ends)]

    def membership(self) -> Callable[[RolloutId], bool]:
        """Return a function that tells whether the plan has a rollout."""
        files = [(_row_finder(numbers), file) for numbers, file in zip(self.numbers, self.files, strict=True)]
        return lambda identity: any(
            file.has_rollout(find_row(identity.task), identity.repeat) for find_row, file in files
        )

    @property
    def notes(self) -> list[str]:
        """Notes for the user on ignored settings and removed keys."""
        notes = [
            f"every row of {file.file.path} names its own agent, so +agent_name={file.file.agent_name} has no effect"
            for file in self.files
            if file.file.agent_name and not self.agents[file.file.agent_name]
        ]
        if self.rows_with_reserved_keys:
            notes.append(
                f"{self.rows_with_reserved_keys} rows have reserved keys (`_ng_…`), which were removed"
            )
        if self.equal.firsts:
            notes.append(self.equal.describe(sum(file.rows for file in self.files)))
        if self.rows_with_repeats:
            notes.append(
                f"{self.rows_with_repeats} rows have `num_repeats`, which has no effect there: it is a key of a "
                "dataset, and of a run (+num_repeats)"
            )
        return [*notes, *self.environment_notes]

    def refuse_faults(self, *, leaves_none: bool = False) -> None:
        """Raise `ConfigError` with the faults, if there are any. `leaves_none`: no row is left if they are skipped."""
        rows = "1 row is" if self.invalid == 1 else f"{self.invalid} rows are"
        skip = (
            ": without them no row is left" if leaves_none else ", or skip them with +skip_invalid_rows=true"
        )
        self.faults.refuse(f"{rows} malformed", f"Correct them{skip}.")


def inspect(settings: PlanSettings) -> DatasetInspection:
    """Read every dataset once. Raises `ConfigError` for a file that is missing, damaged, empty or named twice."""
    refuse_repeated_files(settings.datasets)
    inspection = DatasetInspection()
    seen: dict[bytes, int] = {}
    for file in settings.datasets:
        _inspect_file(file, settings, inspection, seen)
    if not any(file.rows for file in inspection.files):
        names = ", ".join(str(file.path) for file in settings.datasets)
        raise ConfigError(f"no rows in {names}", code="dataset_empty")
    return inspection


def _row_finder(numbers: Sequence[int]) -> Callable[[int], int]:
    """Return a function from a task's index to its row in its file; -1 for a task of another file."""
    if isinstance(numbers, range):
        return lambda task: task - numbers.start if task in numbers else -1
    rows = {task: row for row, task in enumerate(numbers)}
    return lambda task: rows.get(task, -1)


def _inspect_file(
    file: DatasetFile, settings: PlanSettings, inspection: DatasetInspection, seen: dict[bytes, int]
) -> None:
    """Add a file to the inspection. `seen`: the digests of all rows so far, with their places among these."""
    shaper = build_shaper(file, settings)
    digest = hashlib.sha256()
    earlier = sum(each.rows for each in inspection.files)
    rows = invalid = rollouts = 0
    bounds = None if settings.routing.is_uniform else array("L")
    for number, content in islice(read_lines(locate(file.path)), settings.limit):
        if not rows:
            refuse_other_form(file.path, content)
        digest.update(content.strip() + b"\n")
        rows += 1
        copies: list[RepeatedTask] = []
        try:
            if reason := settings.unfit.get(RowPlace(file.path, number)):
                raise FaultyRowError(FieldFault("", reason))
            copies = shaper.tasks(content, file.num_repeats)
        except FaultyRowError as error:
            invalid += 1
            inspection.faults.add(file.path, number, error)
        for task, repeats in copies:
            inspection.agents[task.agent] += 1
            inspection.rollouts_of[task.agent] += repeats
            rollouts += repeats
        if copies:
            _note_task(inspection, copies, Location(str(file.path), number), earlier + rows - 1, seen)
        if bounds is not None:
            bounds.append(len(copies) * max((repeats for _, repeats in copies), default=0))
    inspected = FileInspection(file, digest.hexdigest(), rows, invalid, rollouts, bounds)
    inspection.files.append(inspected)


def _note_task(
    inspection: DatasetInspection,
    copies: Sequence[RepeatedTask],
    where: Location,
    place: int,
    seen: dict[bytes, int],
) -> None:
    """Note what a task says of its dataset: its tools, and whether it repeats another or is the result of one."""
    for task, _ in copies:
        if task.source == task.agent:
            inspection.first_rows.setdefault(task.agent, where)
        for tool in task.tools:
            if (task.agent, tool) not in inspection.tools:
                inspection.tools[task.agent, tool] = where
    task = copies[0].task
    inspection.rows_with_repeats += _REPEATS in task.row
    if task.reserved_keys:
        inspection.rows_with_reserved_keys += 1
        if inspection.results is None and has_verdict([*task.row, *task.reserved_keys]):
            inspection.results = where
    first = seen.setdefault(row_digest(task), place)
    if first != place:
        inspection.equal.firsts[place] = first
        inspection.equal.where = inspection.equal.where or where
