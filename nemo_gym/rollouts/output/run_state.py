"""The state of a stored run: it is running, it ended, or it was killed.

The manifest tells how many rollouts the run plans and how its last start ended. A process that writes the rows holds a
lock on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json, object_in
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.manifest import Manifest, digest_code
from nemo_gym.rollouts.output.run_facts import read_facts
from nemo_gym.rollouts.plan.compression import build_journal_path, holds_text

_LOCKS = Path("/proc/locks")
_NOTES = "notes"
_SHOWN_NOTES = 4
_RESUME = "the same command with --resume (+resume_from_cache=true) continues it"


class RunState(StrEnum):
    """The state of a run, from its manifest and the lock on its rows."""

    RUNNING = "running"
    STOPPED = "stopped"
    """It ended before its plan, or was killed. It can be resumed."""
    PARTIAL = "partial"
    """All rollouts are settled, and some have no score."""
    COMPLETE = "complete"
    UNKNOWN = "unknown"
    """It has no manifest that can be read. Another program wrote the rows, or the manifest is damaged."""
    UNREADABLE = "unreadable"
    """Its rows cannot be read."""


def is_being_written(rows: Path) -> bool:
    """Return whether a process holds the lock of an output. The lock itself is not tried: that could refuse a run."""
    path = next((each for each in (build_journal_path(rows), rows) if each.exists()), None)
    try:
        locks = _LOCKS.read_text().splitlines()
        inode = path.stat().st_ino if path is not None else None
    except OSError:  # not Linux, or the file has gone
        return False
    return inode is not None and any(f":{inode} " in line and " FLOCK " in line for line in locks)


def name_state(end: str | None, *, is_running: bool) -> RunState:
    """Return the state of a run whose last start recorded `end`; None without a record."""
    if is_running:
        return RunState.RUNNING
    return {"complete": RunState.COMPLETE, "partial": RunState.PARTIAL}.get(str(end), RunState.STOPPED)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The plan of a stored run and the record of its end."""

    state: RunState
    planned: int | None = None
    """Rollouts of the whole run, as its last start planned them."""
    is_drawn: bool = False
    """Whether the run draws its tasks with `until`, so that its plan is only a bound."""
    end: str | None = None
    """The end that the last start recorded; None while it runs, and after it was killed."""
    recorded: int | None = None
    """Rows at that end."""
    code: str | None = None
    """The digest of the code and the engines of the last start."""
    codes: tuple[Mapping[str, Any], ...] = ()
    """The codes of a run whose code has changed, as `Manifest.codes`."""
    changed: tuple[str, ...] = ()
    """The settings that were others for earlier rows, as `RunFacts.changed`."""
    shards: tuple[str, ...] = ()
    """What the shards of a merged run lack, in sentences."""
    problem: str | None = None
    """The damage of the manifest."""

    @classmethod
    def read(cls, files: RunFiles) -> RunProgress:
        """Return the progress of the run in `files`. A damaged manifest is its `problem`, and never an error."""
        try:
            manifest = Manifest.read(files.manifest)
            if manifest is None:
                return cls(RunState.UNKNOWN, shards=read_shards(files))
            start = manifest.starts[-1]
            end, counts = start.get("end"), start.get("counts") or {}
            planned = counts.get("planned", start.get("planned"))
            scored = (
                sum(counts[name] for name in ("finished_before", "completed", "truncated"))
                if counts
                else None
            )
            return cls(
                name_state(end, is_running=is_being_written(files.rows)),
                planned=int(planned) if planned is not None else None,
                is_drawn=files.draws.exists(),
                end=end,
                recorded=scored,
                code=digest_code(manifest.identity) if "code" in manifest.identity else None,
                codes=tuple(dict(code) for code in manifest.codes),
                changed=tuple(map(str, read_facts(manifest.identity, manifest.starts).changed)),
            )
        except ConfigError as error:
            return cls(RunState.UNKNOWN, problem=error.failure.message)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, OSError):
            return cls(RunState.UNKNOWN, problem=f"{files.manifest} is damaged")

    @property
    def first_code(self) -> str | None:
        """Return the digest of the code that scored the rows without a mark; None if no manifest tells it."""
        return str(self.codes[0].get("digest")) if self.codes else self.code

    def describe(self, rows: int) -> str | None:
        """Return what a reader of `rows` rows says of the run; None for one that has all rows of its end."""
        if self.problem is not None:
            return f"{self.problem}: it is unknown whether the run has all of its rows"
        if self.shards:
            others = len(self.shards) - _SHOWN_NOTES
            more = f"; and {others:,} more notes" if others > 0 else ""
            return f"merged from shards; {'; '.join(self.shards[:_SHOWN_NOTES])}{more}"
        if self.planned is None:
            return None
        counted = f"{rows:,} rollouts" if self.is_drawn else f"{rows:,} of {self.planned:,} planned rollouts"
        if self.state is RunState.RUNNING:
            return f"{counted}; the run has not ended: it is running"
        if self.end is None:
            return f"{counted}; the run has not ended: {_RESUME}"
        if self.state is RunState.STOPPED and rows < self.planned:
            return f"{counted}; the run ended early ({self.end}): {_RESUME}"
        if self.recorded is not None and rows < self.recorded:
            return f"{counted}; the run ended with {self.recorded:,} rows, and the others were removed: {_RESUME}"
        return None


def write_shards(
    files: RunFiles, notes: Sequence[str], identity: Mapping[str, Any], start: Mapping[str, Any]
) -> None:
    """Keep beside a merged run what its shards lack, and what they are: the file has the form of a manifest too.

    A merged run has no manifest of its own, which a resume would take for that of its plan.
    """
    manifest = {"schema_version": 1, "identity": identity, "starts": [start]}
    write_atomically(files.shards, dump_json({_NOTES: list(notes), **manifest}) + b"\n")


def read_shards(files: RunFiles) -> tuple[str, ...]:
    """Return what the shards of a merged run lack. Raises `OSError` if the file cannot be read."""
    if not holds_text(files.shards):
        return ()
    notes = (object_in(files.shards.read_bytes()) or {}).get(_NOTES)
    return tuple(map(str, notes)) if isinstance(notes, list) else ()
