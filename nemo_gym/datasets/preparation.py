"""Preparation of datasets for a run or a trainer: every row is validated and counted, then merged by split.

The first pass finds the rows that their environments cannot read, the second one faults by file, line and field,
statistics, duplicate rows, and train rows that leak validation rows. Nothing is written if a row is malformed, unless
malformed rows may be skipped. The last pass writes `<split>.jsonl` (rows with agent and filled prompt, repeated as the
dataset declares) and `<split>_metrics.json` (statistics).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import TypeAdapter

from nemo_gym.config.types import DatasetType
from nemo_gym.datasets._statistics import DatasetStatistics, read_item_text
from nemo_gym.datasets.checking import check_line
from nemo_gym.launch.task_checks import TaskChecks
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.rollouts.plan.dataset import DatasetFile, locate, read_lines
from nemo_gym.rollouts.plan.equal_tasks import digest_json, row_digest
from nemo_gym.rollouts.plan.plan import PlanSettings, build_shaper
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, FieldFault, RowFaults, Task

TRAIN: DatasetType = "train"
_BATCH_ROWS = 500
HELD_OUT: tuple[DatasetType, ...] = ("validation", "benchmark")
"""The splits that must not leak into train."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of one split."""

    split: DatasetType
    name: str
    """The name of the dataset, for messages."""
    file: DatasetFile
    schema: TypeAdapter[Any] | None = None
    """The schema of its environment's tasks, if that has one."""


@dataclass(slots=True)
class FileReport:
    """The contents of one file."""

    source: SourceFile
    statistics: DatasetStatistics = field(default_factory=DatasetStatistics)
    invalid: int = 0


@dataclass(slots=True)
class PreparationReport:
    """The contents of all files, and the files written."""

    files: list[FileReport] = field(default_factory=list)
    faults: RowFaults = field(default_factory=RowFaults)
    duplicates: list[Repetition] = field(default_factory=list)
    """Rows that duplicate an earlier row of their split."""
    leaks: list[Repetition] = field(default_factory=list)
    """Train rows, each with the row of a held-out split that it repeats."""
    unchecked: Mapping[str, str] = field(default_factory=dict)
    """The reason, by each agent whose rows no environment has checked."""
    written: dict[Path, int] = field(default_factory=dict)
    """Number of rows by file."""

    @property
    def invalid(self) -> int:
        return sum(file.invalid for file in self.files)

    @property
    def rows(self) -> int:
        """Number of valid rows."""
        return sum(file.statistics.rows for file in self.files)

    def where(self, place: Place) -> str:
        return f"{self.files[place.file].source.file.path}:{place.line}"

    def merge_statistics(self, split: DatasetType) -> DatasetStatistics:
        """Return the statistics of all files of a split."""
        whole = DatasetStatistics()
        for file in self.files:
            if file.source.split == split:
                whole.merge(file.statistics)
        return whole

    def splits(self) -> list[DatasetType]:
        return list(dict.fromkeys(file.source.split for file in self.files))

    def refuse_faults(self) -> None:
        """Raise `ConfigError` with the faults found, if any."""
        self.faults.refuse(
            f"{self.invalid} of {self.rows + self.invalid} rows malformed",
            "Correct them, or skip them by +skip_invalid_rows=true.",
        )

    def to_json(self) -> dict[str, Any]:
        def list_repetitions(found: Sequence[Repetition]) -> list[dict[str, str]]:
            return [{"row": self.where(one.place), "first": self.where(one.first)} for one in found]

        return {
            "files": [
                {
                    "name": file.source.name,
                    "split": file.source.split,
                    "path": str(file.source.file.path),
                    "num_repeats": file.source.file.num_repeats,
                    "invalid_rows": file.invalid,
                    **file.statistics.to_json(),
                }
                for file in self.files
            ],
            "splits": {split: self.merge_statistics(split).to_json() for split in self.splits()},
            "faults": self.faults.shown,
            "fault_count": self.faults.count,
            "unchecked": dict(self.unchecked),
            "duplicates": list_repetitions(self.duplicates),
            "leaks": list_repetitions(self.leaks),
            "written": {str(path): rows for path, rows in self.written.items()},
        }


class Preparation:
    """One preparation of `sources`: `inspect` first, then `write`."""

    def __init__(self, sources: Sequence[SourceFile], checks: TaskChecks | None = None) -> None:
        """`checks`: those by the rows' environments. Raises `ConfigError` for a template that cannot be loaded."""
        self._checks = checks
        self._unfit: dict[Place, FaultyRowError] = {}
        self._sources = list(sources)
        self._shapers = [build_shaper(source.file, PlanSettings((source.file,))) for source in sources]
        self._seen: dict[DatasetType, SplitRows] = {}
        self.report = PreparationReport()

    def inspect(self) -> PreparationReport:
        """Read every file once. Raises `ConfigError` for a missing or damaged file."""
        self.report.files = [FileReport(source) for source in self._sources]
        if self._checks is not None:
            for number in range(len(self._sources)):
                self._find_unfit(number, self._checks)
            self.report.unchecked = self._checks.unchecked
        for number, file in enumerate(self.report.files):
            seen = self._seen.setdefault(file.source.split, SplitRows())
            for place, task in self._tasks(number):
                if isinstance(task, FaultyRowError):
                    file.invalid += 1
                    self.report.faults.add(file.source.file.path, place.line, task)
                    continue
                file.statistics.add(task)
                first = seen.add(task, place)
                if first is not None:
                    self.report.duplicates.append(Repetition(place, first))
        self._find_leaks()
        return self.report

    def write(self, folder: Path, *, without_repetitions: bool = False) -> None:
        """Write the files of every split to `folder`, optionally without duplicates and leaks.

        Raises `ConfigError` if that would overwrite a source.
        """
        splits = self.report.splits()
        outputs = [folder / name for split in splits for name in (f"{split}.jsonl", f"{split}_metrics.json")]
        refuse_inputs(outputs, [locate(source.file.path) for source in self._sources])
        repeated = {one.place for one in (*self.report.duplicates, *self.report.leaks)}
        left_out = repeated if without_repetitions else set()
        for split in splits:
            path = folder / f"{split}.jsonl"
            self.report.written[path] = self._write_split(split, path, left_out)
            metrics = orjson.dumps(self.report.merge_statistics(split).to_json(), option=orjson.OPT_INDENT_2)
            with replacing(folder / f"{split}_metrics.json") as file:
                file.write(metrics + b"\n")

    def _find_unfit(self, number: int, checks: TaskChecks) -> None:
        """Find the rows of a file that their environments cannot read."""

        def check(agent: str, batch: Sequence[tuple[Place, Task]]) -> None:
            for place, messages in checks.find_faults(agent, [task.row for _, task in batch]).items():
                faults = [FieldFault("", message) for message in messages]
                self._unfit[batch[place][0]] = FaultyRowError(*faults)

        waiting: defaultdict[str, list[tuple[Place, Task]]] = defaultdict(list)
        for place, task in self._tasks(number):
            if isinstance(task, Task):
                waiting[task.agent].append((place, task))
                if len(waiting[task.agent]) == _BATCH_ROWS:
                    check(task.agent, waiting.pop(task.agent))
        for agent, batch in waiting.items():
            check(agent, batch)

    def _find_leaks(self) -> None:
        train = self._seen.get(TRAIN)
        held_out = [seen for split, seen in self._seen.items() if split in HELD_OUT]
        if train is None or not held_out:
            return
        duplicates = {one.place for one in self.report.duplicates}
        for number, source in enumerate(self._sources):
            for place, task in self._tasks(number) if source.split == TRAIN else ():
                if isinstance(task, FaultyRowError) or place in duplicates:
                    continue
                leaks = (train.find_leak(seen, task) for seen in held_out)
                first = next((leak for leak in leaks if leak is not None), None)
                if first is not None:
                    self.report.leaks.append(Repetition(place, first))

    def _write_split(self, split: DatasetType, path: Path, left_out: set[Place]) -> int:
        """Write one split, and return the number of rows."""
        rows = 0
        with replacing(path) as output:
            for number, source in enumerate(self._sources):
                for place, task in self._tasks(number) if source.split == split else ():
                    if isinstance(task, FaultyRowError) or place in left_out:
                        continue
                    output.write((task.encoded + b"\n") * source.file.num_repeats)
                    rows += source.file.num_repeats
        return rows

    def _tasks(self, number: int) -> Iterator[tuple[Place, Task | FaultyRowError]]:
        """Yield every line of a file with its task or its faults."""
        shaper, source = self._shapers[number], self._sources[number]
        for line in read_lines(locate(source.file.path)):
            place = Place(number, line.number)
            if place in self._unfit:
                yield place, self._unfit[place]
                continue
            try:
                yield place, check_line(shaper, line.content, source.schema)
            except FaultyRowError as error:
                yield place, error


# --- Duplicate rows and leakage ---------------------------------------------------------------------------------------
# Two rows are duplicates if they have the same agent and the same fields, except ids (`id`, `uuid`, `_ng_*`). They
# have the same prompt if their inputs are equal, ignoring case and white space, and they have the same tools. A
# train row with the prompt of a validation row is a leak, even if other fields differ. A prompt that several
# different rows of one split share does not identify a task (games that differ in a seed), so it is not evidence of
# a leak.
# Memory: two digests of 16 bytes and one location per row.


_SHARED = None
"""The place of a prompt that several different rows have."""


class Place(NamedTuple):
    """The location of a row."""

    file: int
    """The index of the file in the preparation."""
    line: int


class Repetition(NamedTuple):
    """A row that repeats another one, in its own split or in a held-out split."""

    place: Place
    first: Place


@dataclass(slots=True)
class SplitRows:
    """The rows of one split."""

    rows: dict[bytes, Place] = field(default_factory=dict)
    prompts: dict[bytes, Place | None] = field(default_factory=dict)

    def add(self, task: Task, place: Place) -> Place | None:
        """Add a row. Returns the place of the row that it duplicates, or None."""
        row = row_digest(task)
        first = self.rows.setdefault(row, place)
        if first != place:
            return first
        prompt = prompt_digest(task)
        self.prompts[prompt] = _SHARED if prompt in self.prompts else place
        return None

    def find_leak(self, held_out: SplitRows, task: Task) -> Place | None:
        """Return the row of `held_out` that leaks through `task`, a row of this split, or None."""
        same = held_out.rows.get(row_digest(task))
        if same is not None:
            return same
        prompt = prompt_digest(task)
        return held_out.prompts.get(prompt) if self.prompts.get(prompt) is not _SHARED else None


def prompt_digest(task: Task) -> bytes:
    """Return the digest of a row's normalized input and of its tools."""
    asked = task.params["input"]
    items = [{"content": asked}] if isinstance(asked, str) else asked
    messages = [[item.get("role", "user"), _normalize(item)] for item in items]
    tools = [tool.get("name") for tool in task.params.get("tools") or () if isinstance(tool, Mapping)]
    return digest_json([messages, tools])


def _normalize(item: Mapping[str, Any]) -> Any:
    """Return an item's text without case and extra white space, and its other parts unchanged."""
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    others = [part for part in parts if isinstance(part, Mapping) and "text" not in part]
    return [" ".join(read_item_text(item).split()).casefold(), others]
