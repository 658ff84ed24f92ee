"""Merges the shards of a run: rows, failures, task rows and metrics.

Merged lines are ordered by identity, so the files are the same, byte by byte, for every division into shards and every
order of them. A rollout with a score in two shards is an error that names both. For shards that each number their tasks
from 0, `renumber` shifts the numbers of each shard behind those of the previous one. Only the positions of lines are in
memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import AggregateResult, Planned
from nemo_gym.names import AGENT_REF_KEY, ROLLOUT_INDEX_KEY, TASK_INDEX_KEY
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import read_identities, read_places
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import opened_plain
from nemo_gym.rollouts.plan.identity import RolloutId, identity_at
from nemo_gym.rollouts.run.run_metrics import RunMetrics, document_of

_SHOWN_OVERLAPS = 20


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
    shards: Sequence[Path], output: Path, *, renumber: bool = False, overwrite: bool = False
) -> Merged:
    """Merge the runs whose rows are `shards` into the run whose rows are `output`.

    Raises `ConfigError` if shards overlap or are damaged, or if the output exists. Then nothing is written.
    """
    files = RunFiles.of(output)
    _refuse_existing(files, overwrite)
    runs = [RunFiles.existing(path) for path in shards]
    files.refuse_inputs(path for run in runs for path in run.present())
    offsets = _offsets(runs) if renumber else [0] * len(runs)
    with ExitStack() as opened:
        rows = _Lines.of([run.rows for run in runs], offsets, opened)
        rows.refuse_overlaps()
        failures = _Lines.of([run.failures for run in runs], offsets, opened)
        tasks = _Lines.of([run.materialized_inputs for run in runs], offsets, opened)
        metrics = RunMetrics()
        for lines, path in (
            (rows, files.rows),
            (failures, files.failures),
            (tasks, files.materialized_inputs),
        ):
            file = opened.enter_context(replacing(path))
            for line in lines:
                if lines is not tasks:
                    metrics.note_row(_parsed(line, path))
                file.write(line + b"\n")
        results = metrics.results(_planned(runs, shares_tasks=rows.shares_tasks()))
        opened.enter_context(replacing(files.aggregate_metrics)).writelines(document_of(results))
        # A resume must not use the manifest of the replaced run.
        files.manifest.unlink(missing_ok=True)
    return Merged(files, len(rows), len(failures), results, metrics.notes)


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


def _parsed(line: bytes, path: Path) -> dict[str, Any]:
    try:
        row: dict[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(
            f"the row of {identity_at(line)} for {path} is damaged: {error}",
            code="damaged_output",
            remedy="Remove its line from the shard to repeat its rollout.",
        ) from error
    return row


class _Place(NamedTuple):
    """A line of the merged file and its source. Sorting keeps the order of one rollout's lines."""

    identity: RolloutId
    """In the merged run."""
    shard: int
    start: int
    length: int


@dataclass(slots=True)
class _Lines:
    """The lines of one kind of file of all shards, in the order of the merged file."""

    paths: Sequence[Path]
    offsets: Sequence[int]
    files: dict[int, BinaryIO] = field(default_factory=dict)
    """Shard → its content."""
    places: list[_Place] = field(default_factory=list)

    @classmethod
    def of(cls, paths: Sequence[Path], offsets: Sequence[int], opened: ExitStack) -> _Lines:
        lines = cls(paths, offsets)
        for shard, (path, offset) in enumerate(zip(paths, offsets, strict=True)):
            if not holds_text(path):
                continue
            file = lines.files[shard] = opened.enter_context(opened_plain(path))
            for row in read_places(file, path):
                identity = RolloutId(row.identity.task + offset, row.identity.repeat)
                lines.places.append(_Place(identity, shard, row.start, row.length))
        lines.places.sort()
        return lines

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[bytes]:
        for place in self.places:
            offset = self.offsets[place.shard]
            line = os.pread(self.files[place.shard].fileno(), place.length, place.start)
            yield _renumbered(line, place.identity, offset) if offset else line

    def refuse_overlaps(self) -> None:
        """Raise `ConfigError` if rollouts have several rows."""
        twice = [(one, other) for one, other in pairwise(self.places) if one.identity == other.identity]
        if not twice:
            return
        shown = "".join(
            f"\n  {one.identity}: in {self.paths[one.shard]} and {self.paths[other.shard]}"
            for one, other in twice[:_SHOWN_OVERLAPS]
        )
        more = f"\n  … and {len(twice) - _SHOWN_OVERLAPS:,} more" if len(twice) > _SHOWN_OVERLAPS else ""
        raise ConfigError(
            f"the shards overlap:{shown}{more}\n",
            code="shards_overlap",
            remedy="Name each shard once. If each shard numbers its tasks from 0, add +renumber=true.",
        )

    def shares_tasks(self) -> bool:
        """Return whether two shards have rollouts of the same task."""
        owners: dict[int, int] = {}
        return any(
            owners.setdefault(place.identity.task, place.shard) != place.shard for place in self.places
        )


def _offsets(runs: Sequence[RunFiles]) -> list[int]:
    """Return the offset of each shard's task numbers, after those of the previous shard."""
    offsets, next_task = [], 0
    for run in runs:
        offsets.append(next_task)
        present = filter(holds_text, (run.rows, run.failures, run.materialized_inputs))
        last = max((identity.task for path in present for identity in read_identities(path)), default=-1)
        next_task += last + 1
    return offsets


def _renumbered(line: bytes, identity: RolloutId, offset: int) -> bytes:
    """Return a row with another identity; the rest of a row of the gym is kept byte by byte."""
    before = RolloutId(identity.task - offset, identity.repeat).head()
    if line.startswith(before):
        return identity.head() + line[len(before) :]
    row = orjson.loads(line)
    keys = {TASK_INDEX_KEY: identity.task, ROLLOUT_INDEX_KEY: identity.repeat}
    return orjson.dumps(keys | row | keys)


def _planned(runs: Sequence[RunFiles], *, shares_tasks: bool) -> dict[str, Planned]:
    """Return planned tasks and rollouts by agent from the shards' metrics; empty if a shard has none.

    If shards share tasks, the number of tasks is that of the largest shard.
    """
    planned: dict[str, Planned] = {}
    for run in runs:
        if not run.aggregate_metrics.exists():
            return {}
        for entry in orjson.loads(run.aggregate_metrics.read_bytes()):
            agent, metrics = str(entry[AGENT_REF_KEY]["name"]), entry["agent_metrics"]
            tasks, rollouts = metrics.get("count/tasks", 0), metrics.get("count/rollouts", 0)
            before = planned.get(agent, Planned(0, 0))
            together = max(before.tasks, tasks) if shares_tasks else before.tasks + tasks
            planned[agent] = Planned(together, before.rollouts + rollouts)
    return planned
