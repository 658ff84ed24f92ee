"""The call of an opened rollout that is being answered, for the parts of a model server that add to its record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from nemo_gym.responses import Note
from nemo_gym.tokens.records import CallRecord

_INDEX = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class NotedCall:
    """The parts of a call's record that only its handler sees."""

    tokens: CallRecord | None = None
    """Its token record, with the ids that it adds to an earlier call of the rollout."""
    notes: Counter[str] = field(default_factory=Counter)
    """The changes of its request and the oddities of its answer: their number by code and field."""

    def note(self, note: Note | str) -> None:
        name = note if isinstance(note, str) else f"{note.code} {_INDEX.sub('[]', note.field)}"
        self.notes[name] += 1


_current: ContextVar[NotedCall | None] = ContextVar("nemo_gym_noted_call", default=None)


def noted_call() -> NotedCall | None:
    """Return the call that this code answers, or None outside of an opened rollout."""
    return _current.get()


@contextmanager
def noting() -> Iterator[NotedCall]:
    """The code within the block answers one call."""
    call = NotedCall()
    token = _current.set(call)
    try:
        yield call
    finally:
        _current.reset(token)
