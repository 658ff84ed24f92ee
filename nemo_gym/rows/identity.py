"""The identity of a rollout: the pair (task, repeat), and the keys that hold it.

A task's number is its index in the dataset, not counting blank lines. It is independent of the limit and of skipped
malformed rows. Repeats are numbered from 0 within their task.

Rows that the gym writes start with the identity and the row's version, so a reader finds the rollouts of a file from
the first bytes of each line, without parsing trajectories of megabytes.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeGuard

from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import (
    ATTEMPT_INDEX_KEY,
    ROLLOUT_ID_KEY,
    ROLLOUT_INDEX_KEY,
    SCORED_BY_KEY,
    TASK_INDEX_KEY,
    VERSION_KEY,
)
from nemo_gym.rows.version import ROW_VERSION, is_readable, unreadable_version

_HEAD = re.compile(
    rb'\{"%b":(\d+),"%b":(\d+)(?:,"%b":"([^"\\]*)")?[,}]'
    % (TASK_INDEX_KEY.encode(), ROLLOUT_INDEX_KEY.encode(), VERSION_KEY.encode())
)
_HEAD_FORM = b'{"%b":%%d,"%b":%%d,"%b":"%b",' % (
    TASK_INDEX_KEY.encode(),
    ROLLOUT_INDEX_KEY.encode(),
    VERSION_KEY.encode(),
    ROW_VERSION.encode(),
)
_INDEX_BOUND = 1 << 63
_INDICES = re.compile(rb'"(%s|%s)":(\d+)' % (TASK_INDEX_KEY.encode(), ROLLOUT_INDEX_KEY.encode()))


class RolloutId(NamedTuple):
    """One rollout of a run: `task` is the row's index in the dataset, `repeat` counts from 0."""

    task: int
    repeat: int

    def head(self) -> bytes:
        """Return the first bytes of the JSON of every row of this rollout: its identity and the row's version."""
        return _HEAD_FORM % self

    def members(self) -> dict[str, Any]:
        """Return the same as the first members of a row."""
        return {TASK_INDEX_KEY: self.task, ROLLOUT_INDEX_KEY: self.repeat, VERSION_KEY: ROW_VERSION}

    def __str__(self) -> str:
        return f"task {self.task}, repeat {self.repeat}"


def attempt_member(attempt: int) -> bytes:
    """Return the member of a row's JSON with the number of its attempt."""
    return b'"%b":%d,' % (ATTEMPT_INDEX_KEY.encode(), attempt)


def identity_at(text: bytes, place: str = "a stored row") -> RolloutId | None:
    """Return the identity at the start of a row's JSON, or None if the row does not start with it.

    Raises `ConfigError` with the row's `place` for a version that this gym cannot read.
    """
    match = _HEAD.match(text)
    if match is None:
        return None
    if match[3] is not None and not is_readable(version := match[3].decode(errors="replace")):
        raise unreadable_version(version, place)
    return RolloutId(int(match[1]), int(match[2]))


def is_index(value: object) -> TypeGuard[int]:
    """Return whether a value can be an index: an integer of 64 bits, and no Boolean."""
    return isinstance(value, int) and not isinstance(value, bool) and -_INDEX_BOUND <= value < _INDEX_BOUND


def identity_in(row: AnyRow) -> RolloutId | None:
    """Return the identity of a parsed row, or None."""
    task, repeat = row.get(TASK_INDEX_KEY), row.get(ROLLOUT_INDEX_KEY)
    return RolloutId(task, repeat) if is_index(task) and is_index(repeat) else None


def read_task_index(row: AnyRow) -> int | None:
    """Return the task of a row, which need not have a repeat; None for a row without one."""
    task = row.get(TASK_INDEX_KEY)
    return task if is_index(task) else None


def read_repeat(row: AnyRow) -> int:
    """Return the repeat of a row; 0 for a row without one."""
    repeat = row.get(ROLLOUT_INDEX_KEY)
    return repeat if is_index(repeat) else 0


def read_attempt(row: AnyRow) -> int:
    """Return the number of the attempt at the rollout; 0 for a row without one."""
    attempt = row.get(ATTEMPT_INDEX_KEY)
    return attempt if is_index(attempt) else 0


def find_indices(text: bytes) -> dict[str, int]:
    """Return the indices that stand anywhere in the JSON of a row, by key."""
    return {key.decode(): int(number) for key, number in _INDICES.findall(text)}


def replace_identity(line: bytes, before: RolloutId, after: RolloutId) -> bytes | None:
    """Return the JSON of a row with the identity `after`; None if it does not start with `before`."""
    match = _HEAD.match(line)
    if match is None or RolloutId(int(match[1]), int(match[2])) != before:
        return None
    indices = match.end(2)
    return b'{"%b":%d,"%b":%d%b' % (
        TASK_INDEX_KEY.encode(), after.task, ROLLOUT_INDEX_KEY.encode(), after.repeat, line[indices:]
    )  # fmt: skip


def mark_code(line: bytes, code: str) -> bytes:
    """Return the JSON of a row with the digest of its code after the identity, unless it has one there."""
    match = _HEAD.match(line)
    end = match.end() if match is not None else 1
    key = b'"%b":' % SCORED_BY_KEY.encode()
    return (
        line if line.startswith(key, end) else b'%b%b"%b",%b' % (line[:end], key, code.encode(), line[end:])
    )


def name_attempt(row: AnyRow) -> str | None:
    """Return the name of the attempt at a task row: its own, or one made of its indices; None without either."""
    attempt = row.get(ATTEMPT_INDEX_KEY) or 0
    name = row.get(ROLLOUT_ID_KEY)
    if name is None:
        if row.get(TASK_INDEX_KEY) is None or row.get(ROLLOUT_INDEX_KEY) is None:
            return None
        name = f"{row[TASK_INDEX_KEY]}-{row[ROLLOUT_INDEX_KEY]}"
    return f"{name}-a{attempt}" if attempt else str(name)


class FinishedRollouts:
    """The set of finished rollouts: one integer per task, one bit per repeat."""

    def __init__(self) -> None:
        self._repeats: dict[int, int] = {}
        self._count = 0

    def add(self, identity: RolloutId) -> bool:
        """Add `identity`; return False if it was already in the set."""
        repeats = self._repeats.get(identity.task, 0)
        bit = 1 << identity.repeat
        if repeats & bit:
            return False
        self._repeats[identity.task] = repeats | bit
        self._count += 1
        return True

    def __contains__(self, identity: RolloutId) -> bool:
        return bool(self._repeats.get(identity.task, 0) >> identity.repeat & 1)

    def __len__(self) -> int:
        return self._count

    def last(self) -> RolloutId:
        """Return the highest identity; (-1, -1) for an empty set."""
        task = max(self._repeats, default=-1)
        return RolloutId(task, self._repeats.get(task, 0).bit_length() - 1)
