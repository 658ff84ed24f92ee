"""The records of a run's attempts, in the folder `<stem>_attempts` beside its rows.

A record is kept until its rollout has a row, or a failure that no further attempt could continue. An attempt is never
continued if the run's identity has changed since its record was made.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym.engines.attempts.record import read_attempt
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.manifest import Change, Manifest
from nemo_gym.rows.identity import FinishedRollouts, RolloutId
from nemo_gym.serving.durable.names import AttemptName, new_run

_FOLDER = re.compile(r"(\d+)\.(\d+)\.a(\d+)", re.ASCII)
_RUN_FILE = "run.json"
_ENDED_FILE = "ended"
"""In the folder of an attempt that ended its rollout, so that no later start continues it."""


class Kept(NamedTuple):
    """The contents of a folder of records."""

    attempts: int
    bytes: int


@dataclass(slots=True)
class AttemptRecords:
    """The records of one run."""

    folder: Path
    run: str
    """The name of this start of the run, which begins the sessions of its attempts: a session is never used again."""
    earlier_run: str | None = None
    """The name of the start before, whose attempts may still be ending."""
    changes: list[Change] = field(default_factory=list)
    """The changes since the records of an earlier start were made, for which they are not continued."""
    _latest: dict[RolloutId, int] = field(default_factory=dict)
    """The number of the latest attempt at a rollout."""
    _first: dict[RolloutId, int] = field(default_factory=dict)
    """The number of the first attempt that this run may continue; 0 if it is not here."""
    damaged: set[str] = field(default_factory=set)
    """The records of interrupted attempts that have lines which cannot be read."""
    lost: set[RolloutId] = field(default_factory=set)
    """The rollouts that such lines left without an answered call to go on from."""
    has_calls_alone: bool = False
    """Whether model servers are all that writes to the record of an attempt which replays none."""
    _spare: list[str] = field(default_factory=list)
    """Folders of attempts whose rows are safe, each of which becomes that of another one."""

    @classmethod
    def open(
        cls,
        files: RunFiles,
        identity: dict[str, Any],
        finished: FinishedRollouts,
        *,
        keeps_all: bool = False,
    ) -> AttemptRecords:
        """Open the records of a run with this identity, and delete those of finished rollouts unless it `keeps_all`.

        Raises `ConfigError` if the folder cannot be used.
        """
        folder = files.attempts
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the records of attempts cannot be written to {folder}: {error.strerror}",
                code="records_unwritable",
                remedy="Choose another +output_jsonl_fpath, or +durability=off.",
            ) from error
        before = _read_run(folder)
        changes = [] if before is None else _find_changes(before, identity)
        run, earlier = new_run(), before["run"] if before is not None else None
        records = cls(folder, run, earlier, changes)
        for name in list_attempts(folder):
            records._latest[name.identity] = max(name.number, records._latest.get(name.identity, 0))
            if (folder / name.folder / _ENDED_FILE).exists():
                records._first[name.identity] = max(name.number + 1, records._first.get(name.identity, 0))
        if changes:
            records._first = {each: number + 1 for each, number in records._latest.items()}
        if all(each in finished for each in records._latest):
            records.changes = []  # no attempt was interrupted
        for settled in [each for each in records._latest if each in finished and not keeps_all]:
            records.delete(settled)
        write_atomically(folder / _RUN_FILE, orjson.dumps({"run": run, "identity": identity}))
        return records

    @property
    def continuable(self) -> int:
        """The number of rollouts with a record that this run may continue."""
        return sum(number >= self._first.get(each, 0) for each, number in self._latest.items())

    def name_next(self, identity: RolloutId) -> AttemptName:
        """Return the name of the next attempt at a rollout."""
        number = self._latest[identity] = self._latest.get(identity, -1) + 1
        name = AttemptName(self.run, *identity, number)
        if self._spare and not number:
            with suppress(OSError):  # the attempt makes a folder of its own
                os.rename(self._spare.pop(), f"{self.folder}/{name.folder}")  # noqa: PTH104 - every attempt begins here
        return name

    def may_continue(self, identity: RolloutId) -> bool:
        """Return whether an attempt at a rollout may have a record to continue."""
        return self._latest.get(identity, -1) >= self._first.get(identity, 0)

    def find_longest(self, identity: RolloutId) -> Path | None:
        """Return the record to continue: the one with the most answered calls, and no mismatch; None without any.

        The latest need not be the longest: it may have been interrupted during its replay.
        """
        longest: tuple[int, Path] | None = None
        damaged = set[str]()
        for number in range(self._first.get(identity, 0), self._latest.get(identity, -1) + 1):
            folder = self.folder / f"{identity.task}.{identity.repeat}.a{number}"
            record = read_attempt(folder)
            calls = len(record.list_answered())
            damaged |= {folder.name} if record.damaged else set()
            if calls and not record.mismatches and (longest is None or calls >= longest[0]):
                longest = calls, folder
        self.damaged |= damaged
        if longest is None and damaged:
            self.lost.add(identity)
        return longest[1] if longest is not None else None

    def refuse_earlier(self, identity: RolloutId) -> None:
        """Let no further attempt continue the ones so far."""
        self._first[identity] = self._latest.get(identity, -1) + 1

    def mark_ended(self, identity: RolloutId) -> None:
        """Let no later start continue an attempt so far, whose records are kept."""
        folder = self.folder / f"{identity.task}.{identity.repeat}.a{self._latest.get(identity, 0)}"
        with suppress(OSError):  # a start that continues it only repeats its end
            (folder / _ENDED_FILE).touch()

    def delete(self, identity: RolloutId) -> None:
        """Delete the records of all attempts at a rollout."""
        for number in range(self._latest.get(identity, -1) + 1):
            _delete(f"{self.folder}/{identity.task}.{identity.repeat}.a{number}")

    def release(self, identity: RolloutId) -> None:
        """Delete the records of a rollout whose row is safe. That of its only attempt waits for another one.

        Until then, or until the end of the run, the record is there. A later start deletes it: its rollout is finished.
        """
        if self.has_calls_alone and not self._latest.get(identity, -1):
            self._spare.append(f"{self.folder}/{identity.task}.{identity.repeat}.a0")
        else:
            self.delete(identity)

    def end(self) -> Kept:
        """Return what is kept. A folder without a record is removed."""
        while self._spare:
            _delete(self._spare.pop())
        kept = measure(self.folder)
        if not kept.attempts:
            shutil.rmtree(self.folder, ignore_errors=True)
        return kept


def list_attempts(folder: Path) -> Iterator[AttemptName]:
    """Yield the attempts with a record in a folder. Their run is not known by their folders."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            match = _FOLDER.fullmatch(entry.name)
            if match is not None:
                yield AttemptName("", int(match[1]), int(match[2]), int(match[3]))


def refuse_interrupted(files: RunFiles, finished: FinishedRollouts) -> None:
    """Raise `ConfigError` if an unfinished rollout has a record that a start without durability would not use."""
    found = {
        name.identity
        for name in list_attempts(files.attempts)
        if name.identity not in finished and not (files.attempts / name.folder / _ENDED_FILE).exists()
    }
    if found:
        raise ConfigError(
            f"{files.attempts} has records of interrupted attempts at {len(found):,} rollouts, which go on only with "
            "durability",
            code="records_unused",
            remedy="Resume with +durability=process (gym: --durability process), as before, or delete the records: "
            f"gym forget {files.rows}",
        )


def measure(folder: Path) -> Kept:
    """Return the number of records in a folder, and their bytes."""
    names = [folder / name.folder for name in list_attempts(folder)]
    sizes = (path.stat().st_size for name in names for path in name.iterdir() if path.is_file())
    return Kept(len(names), sum(sizes))


def delete_all(folder: Path) -> Kept:
    """Delete all records in a folder, and return what they were."""
    deleted = measure(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return deleted


def _read_run(folder: Path) -> dict[str, Any] | None:
    try:
        found = orjson.loads((folder / _RUN_FILE).read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None  # the run was killed before its first attempt
    return found if isinstance(found, dict) and isinstance(found.get("run"), str) else None


def _find_changes(before: Mapping[str, Any], identity: Mapping[str, Any]) -> list[Change]:
    """Return the changes for which no attempt is continued: all but those of which tasks and repeats a run has."""
    changes: Iterable[Change] = Manifest(before["identity"]).changes_to(identity)
    return [change for change in changes if not change.is_of_tasks and not change.extends]


def _delete(folder: str) -> None:
    """Delete a record."""
    with suppress(FileNotFoundError):
        with os.scandir(folder) as entries:
            for entry in entries:
                os.unlink(entry.path)  # noqa: PTH108 - every rollout may end here, and a Path costs more
        os.rmdir(folder)  # noqa: PTH106
