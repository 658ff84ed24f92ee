"""The identities of the rows of one file, also of rows that another program wrote without indices.

Every reader of stored rows reads identities by `RowIdentities`, so that all of them count the same tasks. A row states
its indices, or it has none: then the rows with one prompt are the repeats of a task, tasks are numbered in the order of
their first rows, and a row without a request is a task of its own. An index of another kind (a Boolean, a fraction, a
text) is refused, and so is a file that states the tasks of some rows only: a number that is made up could be that of
another task.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_in, is_index
from nemo_gym.rows.keys import ROLLOUT_INDEX_KEY, TASK_INDEX_KEY
from nemo_gym.rows.parts import read_agent_or_unknown, read_params

_REMEDY = "Write both indices as integers, or leave them out of every row of the file."


def prompt_fingerprint(row: AnyRow) -> bytes:
    """Return a 16-byte digest of the prompt: instructions, input and tools."""
    params = read_params(row)
    prompt = [params.get("instructions"), params.get("input"), params.get("tools") or None]
    return hashlib.blake2b(orjson.dumps(prompt, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


class GroupId(NamedTuple):
    """A group: the rollouts of one task by one agent.

    Whatever is computed from several rollouts of a task (a baseline, pass@k, a pair, a profile) is of a group. Two
    agents of a run are two policies or two environments, and rollouts of both are no sample of either.
    """

    task: int
    agent: str


def read_group(row: AnyRow, identity: RolloutId) -> GroupId:
    """Return the group of a row with this identity."""
    return GroupId(identity.task, read_agent_or_unknown(row))


class RowIdentities:
    """Reads the identities of the rows of one file, in the order of the rows."""

    def __init__(self) -> None:
        self._tasks: dict[bytes | int, int] = {}
        """The tasks without an index: by their prompts, or by their own numbers."""
        self._repeats: Counter[int] = Counter()
        """The rows of each task that state no repeat."""
        self._states_tasks: bool | None = None
        self.unnamed = 0
        """The rows with neither an index nor a request, each of which is a task of its own."""

    def note(self, identity: RolloutId, place: str) -> RolloutId:
        """Return the identity that a row states. Raises `ConfigError` if earlier rows state none."""
        self._expect(True, place)
        return identity

    def identify(self, row: AnyRow, place: str) -> RolloutId:
        """Return the identity of the next row. `place` is its file and line.

        Raises `ConfigError` for an index of another kind, and for a file that states the tasks of some rows only.
        """
        if (identity := identity_in(row)) is not None:
            return self.note(identity, place)
        require_indices(row, place)
        task, repeat = row.get(TASK_INDEX_KEY), row.get(ROLLOUT_INDEX_KEY)
        self._expect(task is not None, place)
        number: int = self._number_task(row, place) if task is None else task
        if repeat is None:
            repeat = self._repeats[number]
            self._repeats[number] += 1
        return RolloutId(number, repeat)

    def _number_task(self, row: AnyRow, place: str) -> int:
        has_request = bool(read_params(row))
        self.unnamed += not has_request
        try:
            key = prompt_fingerprint(row) if has_request else len(self._tasks)
        except TypeError as error:  # orjson reads more levels than it writes
            message = f"{place}: the row cannot be compared: {error}"
            raise ConfigError(message, code="row_too_deep", remedy="Remove the row.") from error
        return self._tasks.setdefault(key, len(self._tasks))

    def _expect(self, states_task: bool, place: str) -> None:
        if self._states_tasks is None:
            self._states_tasks = states_task
        if self._states_tasks is not states_task:
            has = "a" if states_task else "no"
            raise ConfigError(
                f"{place}: the row has {has} `{TASK_INDEX_KEY}`, unlike earlier rows of its file",
                code="some_indices",
                param=TASK_INDEX_KEY,
                remedy=_REMEDY,
            )


def require_indices(row: AnyRow, place: str) -> None:
    """Raise `ConfigError` for a row with an index of another kind. A row need not have indices."""
    wrong = [
        f"`{key}` = {orjson.dumps(row[key]).decode()[:40]}"
        for key in (TASK_INDEX_KEY, ROLLOUT_INDEX_KEY)
        if row.get(key) is not None and not is_index(row[key])
    ]
    if wrong:
        raise ConfigError(
            f"{place}: the row has {' and '.join(wrong)}; an index is an integer",
            code="bad_row_index",
            param=TASK_INDEX_KEY,
            remedy=_REMEDY,
        )
