"""The tasks of a run found again in changed datasets, by their content.

A run's rows hold their tasks. A task of the datasets that is one of the run keeps its index there, wherever it stands
now; a new one gets an index that no task of the run has. So no row is taken for an attempt at another task. Equal tasks
are paired in the order of their indices.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import read_line_identity
from nemo_gym.rollouts.output.manifest import AllowedChanges, Manifest
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import locate, read_lines
from nemo_gym.rollouts.plan.plan import PlanSettings, build_shaper
from nemo_gym.rollouts.plan.task_content import request_digest, task_digest
from nemo_gym.rollouts.plan.task_rows import FaultyRowError
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.parts import read_agent


class KnownTask(NamedTuple):
    """A task of a run or of a dataset, as far as pairing needs it."""

    request: str
    """The digest of its content with its sampling."""
    content: str
    agents: frozenset[str]
    """The agents that attempt it."""


@dataclass(frozen=True, slots=True)
class TaskMatch:
    """The tasks of datasets, numbered by those of a run."""

    numbers: tuple[Sequence[int], ...]
    """The indices of each dataset's tasks, in the order of its rows."""
    kept: int
    """Tasks of the run that the datasets have."""
    added: int
    gone: int
    """Tasks of the run that the datasets do not have."""

    def describe(self) -> str:
        """Return the counts as a note for the user."""
        gone = f", {self.gone:,} of the run are not in the input any more" if self.gone else ""
        return f"tasks were matched by content: {self.kept:,} of the run, {self.added:,} new{gone}"


def find_numbers(
    files: RunFiles, identity: Mapping[str, Any], plan: PlanSettings, allowed: AllowedChanges
) -> tuple[Sequence[Sequence[int]] | None, list[str]]:
    """Return the numbers of the tasks of a run to be resumed, and notes. None: they count from 0.

    It is also None for changes that are not `allowed`; opening the run refuses them.
    """
    manifest = Manifest.read(files.manifest)
    if not files.holds_results():
        return None, []
    changes = manifest.changes_to(identity) if manifest is not None else []
    if manifest is not None and not any(change.is_of_tasks for change in changes):
        return unpack_numbers(manifest.tasks) if manifest.tasks is not None else None, []
    if not all(allowed.includes(change) for change in changes) or (
        manifest is None and not allowed.everything
    ):
        return None, []
    match = match_tasks(files, plan, with_any_agent=allowed.everything)
    return match.numbers, [match.describe()]


def match_tasks(files: RunFiles, plan: PlanSettings, *, with_any_agent: bool = False) -> TaskMatch:
    """Return the numbers of the plan's tasks that keep the rows of the run in `files` with their tasks.

    A task is that of the run with the same request, else with the same content, of the same agents or, with
    `with_any_agent`, of others. Raises `ConfigError` if no task of the run is in the datasets: it is another run.
    """
    fields: set[str] = set()
    datasets = [list(_read_dataset_tasks(plan, place, fields)) for place in range(len(plan.datasets))]
    wanted = [task for tasks in datasets for task in tasks]
    stored = read_stored_tasks(files, fields, has_seed=plan.add_seed)
    found: dict[int, int] = {}
    _pair(stored, wanted, found, lambda task: task.request)
    _pair(stored, wanted, found, lambda task: task.content)
    if with_any_agent:
        _pair(stored, wanted, found, lambda task: task.content, with_any_agent=True)
    if stored and not found:
        named = ", ".join(str(file.path) for file in plan.datasets)
        raise ConfigError(
            f"{named} has no task of the run {files.rows}, so it is another run",
            code="no_common_task",
            remedy="Write to another file with +output_jsonl_fpath (gym: -o), or start again with +overwrite=true "
            "(gym: --overwrite); the old files are moved aside.",
        )
    fresh = iter(range(max(stored, default=-1) + 1, max(stored, default=-1) + 1 + len(wanted)))
    indices = iter([found[place] if place in found else next(fresh) for place in range(len(wanted))])
    numbers = tuple(_compact(array("q", islice(indices, len(tasks)))) for tasks in datasets)
    added = sum(task is not None for task in wanted) - len(found)
    return TaskMatch(numbers, len(found), added, len(stored) - len(found))


def read_stored_tasks(files: RunFiles, fields: Collection[str], *, has_seed: bool) -> dict[int, KnownTask]:
    """Return the tasks of a run by their index: those of its task rows, else of its scored rows.

    `fields`: the fields that tasks can have. Scored rows have those of their verdicts too.
    """
    stored: dict[int, KnownTask] = {}
    for path in (files.materialized_inputs, files.rows):
        from_task_rows = frozenset(stored)
        for (task, _), row in read_stored_rows(path):
            if task in from_task_rows:
                continue
            known, agent = stored.get(task), read_agent(row) or ""
            if known is None:
                own = (
                    row
                    if path is files.materialized_inputs
                    else {key: row[key] for key in row if key in fields}
                )
                stored[task] = _describe_task(own, frozenset({agent}), has_seed)
            elif agent not in known.agents:
                stored[task] = known._replace(agents=known.agents | {agent})
    return stored


def read_stored_rows(path: Path) -> Iterator[tuple[RolloutId, Mapping[str, Any]]]:
    """Yield the rows of a file of a run with their identities, but not a torn last row."""
    for line in read_lines(path) if holds_text(path) else ():
        try:
            row = orjson.loads(line.content)
        except orjson.JSONDecodeError as error:
            if not line.content.endswith(b"\n"):
                return
            raise ConfigError(f"{path}:{line.number}: the row is not JSON", code="damaged_output") from error
        yield read_line_identity(line.content, path, line.number), row


def _read_dataset_tasks(plan: PlanSettings, place: int, fields: set[str]) -> Iterator[KnownTask | None]:
    """Yield the tasks of a dataset, None for a malformed row, which has an index too. Add their fields to `fields`."""
    file = plan.datasets[place]
    shaper = build_shaper(file, plan)
    for line in islice(read_lines(locate(file.path)), plan.limit):
        task = None
        with suppress(
            FaultyRowError
        ):  # reported by the first pass; a run gets here only if such rows are skipped
            copies = shaper.tasks(line.content, file.num_repeats)
            agents = frozenset(copy.task.agent for copy in copies)
            fields.update(copies[0].task.row)
            task = _describe_task(copies[0].task.row, agents, plan.add_seed)
        yield task


def _describe_task(row: Mapping[str, Any], agents: frozenset[str], has_seed: bool) -> KnownTask:
    return KnownTask(request_digest(row, has_seed=has_seed), task_digest(row), agents)


def _pair(
    stored: Mapping[int, KnownTask],
    wanted: Sequence[KnownTask | None],
    found: dict[int, int],
    key: Callable[[KnownTask], str],
    *,
    with_any_agent: bool = False,
) -> None:
    """Add pairs to `found`: the place of a task in `wanted` → its index in `stored`, each once."""
    taken = set(found.values())
    left: defaultdict[str, deque[int]] = defaultdict(deque)
    for index in sorted(stored.keys() - taken):
        left[key(stored[index])].append(index)
    for place, task in enumerate(wanted):
        if task is None or place in found:
            continue
        indices = left.get(key(task), deque())
        fits = (with_any_agent or stored[index].agents <= task.agents for index in indices)
        at = next((at for at, is_fitting in enumerate(fits) if is_fitting), None)
        if at is not None:
            found[place] = indices[at]
            del indices[at]


def _compact(numbers: Sequence[int]) -> Sequence[int]:
    """Return the numbers as a range if they are one."""
    whole = range(numbers[0], numbers[0] + len(numbers)) if numbers else range(0)
    return whole if all(one == other for one, other in zip(numbers, whole, strict=True)) else numbers


def pack_numbers(numbers: Sequence[Sequence[int]]) -> list[list[list[int]]] | None:
    """Return the numbers of tasks as a manifest has them; None if they count from 0 through all datasets."""
    packed = [
        [[part[0], len(part)]] if isinstance(part, range) and part else _runs_in(part) for part in numbers
    ]
    following = 0
    for first, count in (run for part in packed for run in part):
        if first != following:
            return packed
        following += count
    return None


def _runs_in(numbers: Sequence[int]) -> list[list[int]]:
    """Return the runs of consecutive numbers: the first number and the length of each."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return runs


def unpack_numbers(packed: Sequence[Sequence[Sequence[int]]]) -> tuple[Sequence[int], ...]:
    """Return the numbers that `pack_numbers` packed."""
    return tuple(
        _compact(array("q", (number for first, count in part for number in range(first, first + count))))
        for part in packed
    )
