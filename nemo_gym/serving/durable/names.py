"""The name of an attempt, known before its dispatch. It is the attempt's session and the name of its record."""

from __future__ import annotations

from typing import NamedTuple

from nemo_gym import clock
from nemo_gym.rows.identity import RolloutId
from nemo_gym.transport.context import DURABLE_SESSION

_RUN_CHARACTERS = 13


class AttemptName(NamedTuple):
    """An attempt of a durable run. `number` counts the attempts at the rollout from 0, over all starts of the run."""

    run: str
    task: int
    repeat: int
    number: int

    def __str__(self) -> str:
        return f"{self.run}.{self.folder}"

    @property
    def folder(self) -> str:
        """The name of the record's folder."""
        return f"{self.task}.{self.repeat}.a{self.number}"

    @property
    def identity(self) -> RolloutId:
        return RolloutId(self.task, self.repeat)


def new_run() -> str:
    """Return the name of a new durable run, which begins the names of its attempts."""
    return f"d{clock.hex_id()[: _RUN_CHARACTERS - 1]}"


def parse_name(session: str) -> AttemptName | None:
    """Return the attempt that a session is; None for a session of another kind."""
    match = DURABLE_SESSION.fullmatch(session)
    return AttemptName(match[1], int(match[2]), int(match[3]), int(match[4])) if match is not None else None
