"""The identities of the rollouts of shards in the merged run, for shards that each number their tasks from 0.

Tasks are matched by their content. A task that an earlier shard has keeps the number that it has there, and its
rollouts become further repeats of it. Every other task gets a number behind those of the earlier shards. Equal tasks of
one shard are different tasks, and are matched in the order of their numbers. A row that equals one of an earlier shard,
with its response and its times, is a copy and counts once.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nemo_gym.json_objects import object_in
from nemo_gym.rollouts.output.finished import PlacedRow, PlacedRows
from nemo_gym.rollouts.plan.task_content import task_digest
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.numbering import GroupId
from nemo_gym.rows.parts import read_agent_or_unknown, read_params, read_response
from nemo_gym.rows.timing import read_seconds

_DIGEST_BYTES = 16
TaskKey = tuple[str, int]
"""The digest of a task's content, and its place among the tasks of one shard with that content."""


class ShardFiles(NamedTuple):
    """The opened files of a shard."""

    rows: PlacedRows
    failures: PlacedRows
    tasks: PlacedRows


@dataclass(slots=True)
class Renumbering:
    """The identities of all shards in the merged run."""

    identities: list[Mapping[RolloutId, RolloutId | None]] = field(default_factory=list)
    """For each shard: its identities with those in the merged run; None for a copy."""
    repeated_tasks: Counter[str] = field(default_factory=Counter)
    """By agent: the tasks of shards that it attempts in earlier shards too."""
    copies: Counter[str] = field(default_factory=Counter)
    """By agent: the rows that earlier shards have."""


class _KnownTasks:
    """The tasks of the earlier shards by content: all fields of their task rows, or the input of other rows."""

    def __init__(self) -> None:
        self._whole: dict[TaskKey, int] = {}
        self._input: dict[TaskKey, int] = {}
        self._loose: set[int] = set()
        """The tasks of which only the input is known."""

    def find(self, whole: TaskKey | None, content: TaskKey | None) -> int | None:
        """Return the number of an equal task. A task row equals no other task row with the same input alone."""
        if whole is not None and whole in self._whole:
            return self._whole[whole]
        found = self._input.get(content) if content is not None else None
        return found if whole is None or found in self._loose else None

    def add(self, number: int, whole: TaskKey | None, content: TaskKey | None) -> None:
        if whole is None:
            self._loose.add(number)
        else:
            self._whole.setdefault(whole, number)
            self._loose.discard(number)
        if content is not None:
            self._input.setdefault(content, number)


def renumber(shards: Sequence[ShardFiles]) -> Renumbering:
    """Return the identities of the shards' rollouts in the merged run. Raises `ConfigError` for a damaged row."""
    result, known = Renumbering(), _KnownTasks()
    repeats: defaultdict[int, set[int]] = defaultdict(set)
    lines: defaultdict[int, set[bytes]] = defaultdict(set)
    attempted: set[GroupId] = set()
    following = 0
    for shard in shards:
        places, content = _group_places(shard), _Contents()
        merged: dict[RolloutId, RolloutId | None] = {}
        last = following
        for task in sorted(places):
            row, is_task_row = _read_task(shard, places[task])
            keys = content.describe(row, is_task_row=is_task_row)
            number = known.find(*keys)
            if number is None:
                number = task + following
            known.add(number, *keys)
            copied = set(_find_copies(shard, places[task], lines[number]))
            agents = _read_agents(places[task])
            result.copies.update(agents[repeat] for repeat in copied)
            groups = {GroupId(number, agent) for agent in agents.values()}
            result.repeated_tasks.update(group.agent for group in groups & attempted)
            attempted |= groups
            merged |= _place_repeats(task, number, places[task], copied, repeats[number])
            last = max(last, number + 1)
        following = last
        result.identities.append(merged)
    return result


def _place_repeats(
    task: int, number: int, places: _TaskPlaces, copied: set[int], taken: set[int]
) -> Iterator[tuple[RolloutId, RolloutId | None]]:
    """Yield the identities of a task's rollouts in the merged run, and add their repeats to `taken`."""
    own = places.repeats.keys() - copied
    shift = max(taken) + 1 if own & taken else 0
    for repeat in places.repeats:
        yield RolloutId(task, repeat), None if repeat in copied else RolloutId(number, repeat + shift)
    taken |= {repeat + shift for repeat in own}


@dataclass(slots=True)
class _TaskPlaces:
    """The rows of one task in a shard."""

    repeats: dict[int, tuple[PlacedRows, PlacedRow]] = field(default_factory=dict)
    """The first row of each repeat, with its file."""
    rows: list[PlacedRow] = field(default_factory=list)
    first: tuple[PlacedRows, PlacedRow] | None = None
    """Its task row, else its first row."""


def _group_places(shard: ShardFiles) -> dict[int, _TaskPlaces]:
    groups: defaultdict[int, _TaskPlaces] = defaultdict(_TaskPlaces)
    for file in (shard.tasks, shard.rows, shard.failures):
        for place in file.places:
            group = groups[place.identity.task]
            group.repeats.setdefault(place.identity.repeat, (file, place))
            group.first = group.first or (file, place)
            if file is shard.rows:
                group.rows.append(place)
    return groups


def _read_task(shard: ShardFiles, places: _TaskPlaces) -> tuple[AnyRow, bool]:
    """Return a row with the task's content, and whether it is its task row."""
    assert places.first is not None  # a task has a row
    file, place = places.first
    where = f"{place.identity} for {file.path}"
    return read_object(file.line(place), where, code="damaged_output"), file is shard.tasks


def _read_agents(places: _TaskPlaces) -> dict[int, str]:
    """Return the agent of each repeat of a task."""
    return {
        repeat: read_agent_or_unknown(object_in(file.line(place)) or {})
        for repeat, (file, place) in places.repeats.items()
    }


class _Contents:
    """The keys of one shard's tasks."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def describe(self, row: AnyRow, *, is_task_row: bool) -> tuple[TaskKey | None, TaskKey | None]:
        """Return the keys of a task by its whole task row and by its input; None for what the row lacks."""
        whole = self._next(task_digest(row)) if is_task_row else None
        return whole, self._next(f"input {task_digest(row, whole=False)}") if read_params(row) else None

    def _next(self, digest: str) -> TaskKey:
        self._seen[digest] += 1
        return digest, self._seen[digest]


def _find_copies(shard: ShardFiles, places: _TaskPlaces, earlier: set[bytes]) -> Iterator[int]:
    """Yield the repeats of a task whose rows `earlier` has, by their digests, and add those of the others."""
    added = set()
    for place in places.rows:
        line = shard.rows.line(place)
        digest = hashlib.blake2b(line, digest_size=_DIGEST_BYTES).digest()
        if digest in earlier and _is_unique(line):
            yield place.identity.repeat
        added.add(digest)
    earlier |= added


def _is_unique(line: bytes) -> bool:
    """Return whether no second attempt could have the same row: it has the id of a response, or measured times."""
    row = object_in(line) or {}
    return bool(read_response(row).get("id")) or read_seconds(row) is not None
