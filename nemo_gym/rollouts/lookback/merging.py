"""Merges the shards of a run: rows, failures, task rows and metrics.

Merged lines are ordered by identity, so the files are the same, byte by byte, for every division into shards and every
order of them. A rollout with a score in two shards is an error that names both. For shards that each number their tasks
from 0, `renumber` shifts the numbers of each shard behind those of the previous one. Only the positions of lines are in
memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json, object_in, parse_json
from nemo_gym.metrics import AggregateResult, Planned
from nemo_gym.rollouts.lookback.account import RunAccount, describe_accounts, find_marks
from nemo_gym.rollouts.lookback.renumbering import Renumbering, ShardFiles
from nemo_gym.rollouts.lookback.renumbering import renumber as renumber_tasks
from nemo_gym.rollouts.lookback.score_tables import read_manifest, read_origin
from nemo_gym.rollouts.lookback.stored import find_results
from nemo_gym.rollouts.lookback.task_clusters import TaskClusters
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import PlacedRow, PlacedRows
from nemo_gym.rollouts.output.manifest import Manifest
from nemo_gym.rollouts.output.run_facts import (
    build_common_identity,
    find_other_settings,
    read_facts,
)
from nemo_gym.rollouts.output.run_state import write_shards
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.plan.task_content import task_digest
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rollouts.run.run_metrics import RunMetrics, write_document
from nemo_gym.rows.compose import number_row
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import (
    RolloutId,
    identity_at,
    identity_in,
    mark_code,
    read_attempt,
    replace_identity,
)
from nemo_gym.rows.parts import read_agent, read_agent_or_unknown
from nemo_gym.rows.verdict import is_scored, is_terminal

_SHOWN_OVERLAPS = 20
_LONGEST_VALUE = 80
_DAMAGED = "Remove its line from the shard to repeat its rollout."


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge."""

    files: RunFiles
    rows: int
    scored: int
    """Rows with a score."""
    failures: int
    """Failed attempts of all shards: those of the files of failures, and rows without a score. Each counts once."""
    results: Mapping[str, AggregateResult]
    """Agent → metrics."""
    notes: Sequence[str]
    shards: Sequence[RunAccount]
    """The accounts of the shards' runs."""


def merge_shards(
    shards: Sequence[Path],
    output: Path,
    *,
    renumber: bool = False,
    overwrite: bool = False,
    zero_classes: Collection[str] = (),
    counts_missing_as_zero: bool = False,
    allow_identity_change: bool = False,
) -> Merged:
    """Merge the runs whose rows are `shards` into the run whose rows are `output`.

    Metrics count rollouts that failed with one of `zero_classes` as reward 0, and missing ones if asked.

    Raises `ConfigError` if shards overlap, differ or are damaged, or if the output exists. Then nothing is written.
    """
    files = RunFiles.from_output(output)
    _refuse_existing(files, overwrite)
    runs = [find_results(path) for path in shards]
    files.refuse_inputs(path for run in runs for path in run.present())
    differences = _compare_settings(runs, allow_identity_change)
    with ExitStack() as opened:
        stored = [_open_files(run, opened) for run in runs]
        numbering = renumber_tasks(stored) if renumber else _keep_numbers(stored)
        accounts = list(map(_open_account, runs, numbering.identities))
        rows, failures, tasks = (_Lines(kind, numbering.identities) for kind in zip(*stored, strict=True))
        rows.refuse_overlaps()
        tasks.refuse_other_tasks()
        metrics = _MergedMetrics(zero_classes, rows, counts_missing_as_zero)
        _write_rows(rows, files.rows, opened, metrics, accounts)
        _write_lines(failures, files.failures, opened, metrics.note_failure)
        _write_lines(tasks, files.materialized_inputs, opened, metrics.note_task)
        metrics.refuse_other_plan(accounts)
        shares_tasks = not renumber and rows.shares_tasks()
        results = metrics.run.results(_merge_planned(runs, numbering, shares_tasks=shares_tasks))
        opened.enter_context(replacing(files.aggregate_metrics)).writelines(write_document(results))
        _write_origin(files, runs, differences, accounts, metrics)
        files.manifest.unlink(missing_ok=True)  # a resume must not use that of the replaced run
    notes = [*metrics.run.notes, *differences, *_describe_copies(numbering), *describe_accounts(accounts)]
    return Merged(files, len(rows), metrics.scored, metrics.failures, results, notes, accounts)


def _write_origin(
    files: RunFiles,
    runs: Sequence[RunFiles],
    differences: Sequence[str],
    accounts: Sequence[RunAccount],
    metrics: _MergedMetrics,
) -> None:
    """Write what the shards lack and what they are."""
    told = [*differences, *chain.from_iterable(each.describe_run() for each in accounts)]
    manifests = [each for run in runs if (each := read_origin(run)) is not None]
    identity = {} if differences else build_common_identity([each.identity for each in manifests])
    write_shards(files, told, identity, _describe_start(manifests, accounts, metrics))


def _describe_start(
    manifests: Sequence[Manifest], accounts: Sequence[RunAccount], metrics: _MergedMetrics
) -> dict[str, Any]:
    """Return the start of a merged run in the form of a manifest's."""
    starts = [start for each in manifests for start in each.starts]
    plans = [account.progress.planned for account in accounts]
    copies = sum(account.copies for account in accounts)
    tags = [tag for each in manifests for tag in read_facts(each.identity, each.starts).tags]
    ends = [each.starts[-1].get("end") for each in manifests if each.starts]
    return {
        "started_at": min(
            (str(start["started_at"]) for start in starts if "started_at" in start), default=None
        ),
        "settings": {"tags": list(dict.fromkeys(tags))},
        "end": "complete" if ends == ["complete"] * len(accounts) else "partial",
        "counts": {
            "planned": None if None in plans else sum(plan or 0 for plan in plans) - copies,
            "completed": metrics.scored,
            "failed": metrics.failures,
        },
    }


def _compare_settings(runs: Sequence[RunFiles], may_differ: bool) -> list[str]:
    """Return a sentence for each setting in which the shards with a manifest differ, with every value.

    Raises `ConfigError` with them unless they may differ.
    """
    found = [
        (run, manifest) for run in runs if (manifest := read_manifest(run.manifest)) and manifest.identity
    ]
    differences = find_other_settings([manifest.identity for _, manifest in found])
    listed = [f"{key}: {', '.join(_list_values(values, found))}" for key, values in differences]
    if listed and not may_differ:
        lines = "".join(f"\n  {each}" for each in listed)
        raise ConfigError(
            f"the shards were run with different settings:{lines}\n",
            code="other_settings",
            remedy="A mean over them is that of no setting: compare them with gym eval compare. To merge them all the "
            "same, add +allow_identity_change=true; every reader of the merged run tells the differences.",
        )
    return listed


def _list_values(values: Sequence[str], runs: Sequence[tuple[RunFiles, Manifest]]) -> Iterator[str]:
    """Yield each value with the first of the shards that have it."""
    counts = Counter(values)
    for value, count in counts.items():
        more = f" and {count - 1:,} more" if count > 1 else ""
        shown = value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 3]}..."
        yield f"{shown} in {runs[values.index(value)][0].rows}{more}"


def _open_files(run: RunFiles, opened: ExitStack) -> ShardFiles:
    """Open the rows, the failures and the task rows of a run until `opened` is closed."""
    paths = (run.rows, run.failures, run.materialized_inputs)
    return ShardFiles(
        *(opened.enter_context(closing(PlacedRows(path, numbers_rows=path == run.rows))) for path in paths)
    )


def _write_rows(
    rows: _Lines, path: Path, opened: ExitStack, metrics: _MergedMetrics, accounts: Sequence[RunAccount]
) -> None:
    """Write the merged rows, each with the mark of its code if several codes scored them."""
    file, marks = opened.enter_context(replacing(path)), find_marks(accounts)
    for identity, line, shard in rows.renumber_lines():
        accounts[shard].add(metrics.note_row(identity, line, path))
        mark = marks[shard]
        file.write((line if mark is None else mark_code(line, mark)) + b"\n")


def _write_lines(
    lines: _Lines, path: Path, opened: ExitStack, note: Callable[[RolloutId, bytes, Path], None]
) -> None:
    """Write the merged lines of a kind of file, each after `note` has it."""
    file = opened.enter_context(replacing(path))
    for identity, line, _ in lines.renumber_lines():
        note(identity, line, path)
        file.write(line + b"\n")


def _open_account(run: RunFiles, identities: Mapping[RolloutId, RolloutId | None]) -> RunAccount:
    account = RunAccount.open(run)
    account.copies = sum(merged is None for merged in identities.values())
    return account


def _keep_numbers(shards: Sequence[ShardFiles]) -> Renumbering:
    """Return the identities that the rollouts have in their shards."""
    return Renumbering(
        [{row.identity: row.identity for file in shard for row in file.places} for shard in shards]
    )


def _describe_copies(numbering: Renumbering) -> Iterator[str]:
    if count := numbering.copies.total():
        yield f"{count:,} rows are copies of rows of other shards, with their responses and times, and count once"


def _refuse_existing(files: RunFiles, overwrite: bool) -> None:
    if files.holds_results() and not overwrite:
        raise ConfigError(
            f"{files.rows} belongs to an earlier run",
            code="output_exists",
            remedy="Choose another +output_jsonl_fpath, or replace it with +overwrite=true.",
        )
    if (other := files.find_other_form()) is not None:
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

    def __init__(
        self,
        files: Sequence[PlacedRows],
        identities: Sequence[Mapping[RolloutId, RolloutId | None]],
    ) -> None:
        """`identities`: for each shard, those of its rollouts in the merged run; None for one that is left out."""
        self._files = files
        self._places = sorted(
            _Place(identity, shard, row)
            for shard, file in enumerate(files)
            for row in file.places
            if (identity := identities[shard][row.identity]) is not None
        )

    def __len__(self) -> int:
        return len(self._places)

    def identities(self) -> set[RolloutId]:
        return {place.identity for place in self._places}

    def renumber_lines(self) -> Iterator[tuple[RolloutId, bytes, int]]:
        """Yield the lines with the identities that they have in the merged run, and the places of their shards."""
        for identity, shard, row in self._places:
            yield identity, _numbered(self._files[shard].line(row), row.identity, identity), shard

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
            remedy="Name each shard once. If the shards are runs of their own, add +renumber=true: it matches tasks "
            "by their content, and makes the rollouts of equal tasks their repeats.",
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
                    remedy="The shards are runs of different or of reordered datasets. Add +renumber=true: it matches "
                    "tasks by their content, and gives new numbers to the others.",
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

    def __init__(self, zero_classes: Collection[str], rows: _Lines, counts_missing: bool) -> None:
        self._clusters = TaskClusters()
        self.run = RunMetrics(zero_classes, self._clusters.firsts)
        self.scored = 0
        """Rows with a score."""
        self.failures = 0
        """Failed attempts."""
        self._rows = rows.identities()
        self._settled = set(self._rows)
        self._imputed = 0
        """Missing rollouts that count as reward 0."""
        self._failed: set[tuple[RolloutId, int]] = set()
        """The attempts of rows without a score."""
        self._counts_missing = counts_missing

    def note_row(self, identity: RolloutId, line: bytes, path: Path) -> AnyRow:
        """Add a row, and return it. Raises `ConfigError` for a damaged one."""
        row = _read(identity, line, path)
        if is_scored(row):
            self.scored += 1
        else:
            self.failures += 1
            self._failed.add((identity, read_attempt(row)))
        self.run.note_row(row, line)
        return row

    def note_failure(self, identity: RolloutId, line: bytes, path: Path) -> None:
        """Add a failed attempt, unless it stands among the rows. Raises `ConfigError` for a damaged one."""
        row = _read(identity, line, path)
        if is_terminal(row):
            self._settled.add(identity)
        if (identity, read_attempt(row)) not in self._failed:
            self.failures += 1
            self.run.note_row(row, line, is_final=identity not in self._rows and is_terminal(row))

    def note_task(self, identity: RolloutId, line: bytes, path: Path) -> None:
        """Add a task row; as reward 0 if its rollout has no other row, and if that counts so."""
        row = _read(identity, line, path)
        if identity.task not in self._clusters:
            self._clusters.add(identity.task, row)
        if self._counts_missing and identity not in self._settled:
            self.run.note_missing([PlannedAttempt(identity, read_agent_or_unknown(row), line)])
            self._imputed += 1

    def refuse_other_plan(self, accounts: Sequence[RunAccount]) -> None:
        """Raise `ConfigError` if missing rollouts count and the task rows, which tell them, are not those of the plan.

        A run that was stopped has none of what it did not begin; one whose tasks changed has those of old tasks.
        """
        if not self._counts_missing:
            return
        plans = [account.progress.planned for account in accounts]
        planned = sum(plan or 0 for plan in plans) - sum(account.copies for account in accounts)
        found = len(self._settled) + self._imputed
        if None in plans or planned == found:
            return
        raise ConfigError(
            f"{planned:,} rollouts were planned, but rows, failures and task rows are of {found:,}: what is missing "
            "cannot be counted as reward 0",
            code="unknown_missing",
            remedy="Attempt what is missing first (the run's own command with --resume). With "
            "+count_missing_rollouts_as_zero=true that command counts it itself, because it knows the whole plan.",
        )


def _read(identity: RolloutId, line: bytes, path: Path) -> AnyRow:
    return read_object(line, f"{identity} for {path}", code="damaged_output", remedy=_DAMAGED)


def _numbered(line: bytes, before: RolloutId, after: RolloutId) -> bytes:
    """Return a row with another identity, or with the one that it lacks; the rest of a row is kept byte by byte."""
    if before == after and identity_at(line) is not None:
        return line
    if (renumbered := replace_identity(line, before, after)) is not None:
        return renumbered
    row = object_in(line)
    is_numbered = row is None or identity_in(row) == after
    return line if is_numbered else dump_json(number_row(parse_json(line), after))


def _merge_planned(
    runs: Sequence[RunFiles], numbering: Renumbering, *, shares_tasks: bool
) -> dict[str, Planned]:
    """Return planned tasks and rollouts by agent from the shards' metrics; empty if a shard has none.

    If shards share tasks by their numbers, the number of tasks is that of the largest shard.
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
    repeated, copies = numbering.repeated_tasks, numbering.copies
    return {
        agent: Planned(each.tasks - repeated[agent], each.rollouts - copies[agent])
        for agent, each in planned.items()
    }
