"""Merges the shards of a run: rows, failures, task rows and metrics.

Merged lines are ordered by identity, so the files are the same, byte by byte, for every division into shards and every
order of them. A rollout with a score in two shards is an error that names both. For shards that each number their tasks
from 0, `renumber` shifts the numbers of each shard behind those of the previous one. Only the positions of lines are in
memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json, parse_json
from nemo_gym.metrics import AggregateResult, Planned
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import PlacedRow, PlacedRows
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.plan.task_content import task_digest
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rollouts.run.run_metrics import RunMetrics, document_of
from nemo_gym.rows.compose import number_row
from nemo_gym.rows.identity import RolloutId, with_identity
from nemo_gym.rows.parts import read_agent, read_agent_or_unknown
from nemo_gym.rows.verdict import is_terminal

_SHOWN_OVERLAPS = 20
_DAMAGED = "Remove its line from the shard to repeat its rollout."


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge."""

    files: RunFiles
    rows: int
    failures: int
    """Failed attempts of all shards."""
    results: Mapping[str, AggregateResult]
    """Agent → metrics."""
    notes: Sequence[str]


def merge_shards(
    shards: Sequence[Path],
    output: Path,
    *,
    renumber: bool = False,
    overwrite: bool = False,
    zero_classes: Collection[str] = (),
    counts_missing_as_zero: bool = False,
) -> Merged:
    """Merge the runs whose rows are `shards` into the run whose rows are `output`.

    Metrics count rollouts that failed with one of `zero_classes` as reward 0, and missing ones if asked.

    Raises `ConfigError` if shards overlap or are damaged, or if the output exists. Then nothing is written.
    """
    files = RunFiles.of(output)
    _refuse_existing(files, overwrite)
    runs = [RunFiles.existing(path) for path in shards]
    files.refuse_inputs(path for run in runs for path in run.present())
    with ExitStack() as opened:
        stored = [_open_files(run, opened) for run in runs]
        offsets = _offsets(stored) if renumber else [0] * len(runs)
        rows, failures, tasks = (_Lines(kind, offsets) for kind in zip(*stored, strict=True))
        rows.refuse_overlaps()
        tasks.refuse_other_tasks()
        metrics = _MergedMetrics(RunMetrics(zero_classes), rows, failures, counts_missing_as_zero)
        for lines, path, note in (
            (rows, files.rows, metrics.note_row),
            (failures, files.failures, metrics.note_row),
            (tasks, files.materialized_inputs, metrics.note_task),
        ):
            file = opened.enter_context(replacing(path))
            for identity, line in lines.with_identities():
                note(identity, line, path)
                file.write(line + b"\n")
        results = metrics.run.results(_planned(runs, shares_tasks=rows.shares_tasks()))
        opened.enter_context(replacing(files.aggregate_metrics)).writelines(document_of(results))
        # A resume must not use the manifest of the replaced run.
        files.manifest.unlink(missing_ok=True)
    return Merged(files, len(rows), len(failures), results, metrics.run.notes)


def _open_files(run: RunFiles, opened: ExitStack) -> list[PlacedRows]:
    """Open the rows, the failures and the task rows of a run until `opened` is closed."""
    paths = (run.rows, run.failures, run.materialized_inputs)
    return [opened.enter_context(closing(PlacedRows(path))) for path in paths]


def _refuse_existing(files: RunFiles, overwrite: bool) -> None:
    if files.holds_results() and not overwrite:
        raise ConfigError(
            f"{files.rows} belongs to an earlier run",
            code="output_exists",
            remedy="Choose another +output_jsonl_fpath, or replace it with +overwrite=true.",
        )
    if (other := files.in_another_form()) is not None:
        raise ConfigError(
            f"the output exists in another form: {other.rows}",
            code="output_form",
            remedy=f"Replace it with +output_jsonl_fpath={other.rows}, or choose another name.",
        )


class _Place(NamedTuple):
    """A line of the merged file and its source. Sorting keeps the order of one rollout's lines."""

    identity: RolloutId
    """In the merged run."""
    shard: int
    row: PlacedRow


class _Lines:
    """The lines of one kind of file of all shards, in the order of the merged file."""

    def __init__(self, files: Sequence[PlacedRows], offsets: Sequence[int]) -> None:
        self._files = files
        self._offsets = offsets
        self._places = sorted(
            _Place(RolloutId(row.identity.task + offset, row.identity.repeat), shard, row)
            for shard, (file, offset) in enumerate(zip(files, offsets, strict=True))
            for row in file.places
        )

    def __len__(self) -> int:
        return len(self._places)

    def identities(self) -> set[RolloutId]:
        return {place.identity for place in self._places}

    def with_identities(self) -> Iterator[tuple[RolloutId, bytes]]:
        """Yield the lines with the identities that they have in the merged run."""
        for identity, shard, row in self._places:
            line, offset = self._files[shard].line(row), self._offsets[shard]
            yield identity, _renumbered(line, identity, offset) if offset else line

    def refuse_overlaps(self) -> None:
        """Raise `ConfigError` if rollouts have several rows."""
        twice = [(one, other) for one, other in pairwise(self._places) if one.identity == other.identity]
        if not twice:
            return
        shown = "".join(
            f"\n  {one.identity}: in {self._files[one.shard].path} and {self._files[other.shard].path}"
            for one, other in twice[:_SHOWN_OVERLAPS]
        )
        more = f"\n  … and {len(twice) - _SHOWN_OVERLAPS:,} more" if len(twice) > _SHOWN_OVERLAPS else ""
        raise ConfigError(
            f"the shards overlap:{shown}{more}\n",
            code="shards_overlap",
            remedy="Name each shard once. If each shard numbers its tasks from 0, add +renumber=true.",
        )

    def refuse_other_tasks(self) -> None:
        """Raise `ConfigError` if shards have different tasks of one index, such as parts of a reordered dataset."""
        for index, places in groupby(self._places, lambda place: place.identity.task):
            by_shard = {place.shard: place for place in places}
            one, *others = (by_shard[shard] for shard in sorted(by_shard))
            digest = self._digest_task(one) if others else ""
            other = next((each for each in others if self._digest_task(each) != digest), None)
            if other is not None:
                raise ConfigError(
                    f"task {index} of {self._files[one.shard].path} is not that of {self._files[other.shard].path}",
                    code="other_tasks",
                    remedy="The shards are runs of different or of reordered datasets. If each numbers its own tasks "
                    "from 0, add +renumber=true.",
                )

    def _digest_task(self, place: _Place) -> str:
        file = self._files[place.shard]
        return task_digest(read_object(file.line(place.row), str(file.path), code="damaged_output"))

    def shares_tasks(self) -> bool:
        """Return whether two shards have rollouts of the same task."""
        owners: dict[int, int] = {}
        return any(
            owners.setdefault(place.identity.task, place.shard) != place.shard for place in self._places
        )


class _MergedMetrics:
    """The metrics of the merged lines."""

    def __init__(self, run: RunMetrics, rows: _Lines, failures: _Lines, counts_missing: bool) -> None:
        self.run = run
        self._scored = rows.identities()
        self._settled = self._scored | failures.identities()
        self._counts_missing = counts_missing

    def note_row(self, identity: RolloutId, line: bytes, path: Path) -> None:
        """Add a scored or failed row. Raises `ConfigError` for a damaged one."""
        row = read_object(line, f"{identity} for {path}", code="damaged_output", remedy=_DAMAGED)
        is_final = identity not in self._scored and is_terminal(row)
        self.run.note_row(row, line, is_final=is_final)

    def note_task(self, identity: RolloutId, line: bytes, path: Path) -> None:
        """Add a task row if its rollout has no other row, and if that counts as reward 0."""
        if self._counts_missing and identity not in self._settled:
            row = read_object(line, f"{identity} for {path}", code="damaged_output", remedy=_DAMAGED)
            self.run.note_missing([PlannedAttempt(identity, read_agent_or_unknown(row), line)])


def _offsets(stored: Sequence[Sequence[PlacedRows]]) -> list[int]:
    """Return the offset of each shard's task numbers, after those of the previous shard."""
    sizes = (
        max((row.identity.task + 1 for file in files for row in file.places), default=0) for files in stored
    )
    return list(accumulate(sizes, initial=0))[:-1]


def _renumbered(line: bytes, identity: RolloutId, offset: int) -> bytes:
    """Return a row with another identity; the rest of a row of the gym is kept byte by byte."""
    before = RolloutId(identity.task - offset, identity.repeat)
    return with_identity(line, before, identity) or dump_json(number_row(parse_json(line), identity))


def _planned(runs: Sequence[RunFiles], *, shares_tasks: bool) -> dict[str, Planned]:
    """Return planned tasks and rollouts by agent from the shards' metrics; empty if a shard has none.

    If shards share tasks, the number of tasks is that of the largest shard.
    """
    planned: dict[str, Planned] = {}
    for run in runs:
        if not run.aggregate_metrics.exists():
            return {}
        for entry in orjson.loads(run.aggregate_metrics.read_bytes()):
            agent, metrics = str(read_agent(entry)), entry["agent_metrics"]
            tasks, rollouts = metrics.get("count/tasks", 0), metrics.get("count/rollouts", 0)
            before = planned.get(agent, Planned(0, 0))
            together = max(before.tasks, tasks) if shares_tasks else before.tasks + tasks
            planned[agent] = Planned(together, before.rollouts + rollouts)
    return planned
