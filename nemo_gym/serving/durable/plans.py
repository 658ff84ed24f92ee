"""The plan of a replay: a file in its record's folder, written before the attempt is dispatched."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

_FILE = "replay.json"


class ReplayMode(StrEnum):
    """Why an attempt replays another one."""

    CONTINUE = "continue"
    """The earlier attempt was interrupted. All of its answered calls are taken over."""
    FORK = "fork"
    """The first calls of a parent are shared, and the rest is sampled anew."""
    REWIND = "rewind"
    """A single fork that takes the place of the rest."""


class ReplayPlan(BaseModel, extra="forbid"):
    """The calls that an attempt replays, and the rules of it."""

    mode: ReplayMode
    source: Annotated[Path, AfterValidator(Path.resolve)]
    """The folder of the record that is replayed; absolute, as a model server may have another working folder."""
    calls: dict[str, int] | None = None
    """By model server, the number of calls that are answered from the record; None for all."""
    tools_until: float | None = None
    """The time of the last recorded result of a tool that may be given again; None for all."""
    noise: list[str] = Field(default_factory=list)
    """Classes of differences that do not matter (`engines.attempts.noise`)."""
    strict: bool = False
    """Whether changed instructions are a mismatch."""
    max_staleness: int | None = None
    """The most versions by which the recorded policy may be older than the current one."""
    seed: int | None = None
    """Added to the `seed` of live requests that have one, so that forks differ."""

    def write(self, folder: Path) -> None:
        """Write the plan of the attempt whose record is in `folder`. Raises `OSError`."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = folder / f".{_FILE}"
        draft.touch(mode=0o600)
        draft.write_text(self.model_dump_json(), encoding="utf-8")
        draft.rename(folder / _FILE)


def read_plan(folder: Path) -> ReplayPlan | None:
    """Return what the attempt with the record in `folder` replays; None if it begins afresh."""
    try:
        return ReplayPlan.model_validate_json((folder / _FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
