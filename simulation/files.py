"""The current content of a run's files: complete, decompressed lines."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import orjson

from nemo_gym.rollouts.output.files import RunFiles, find_ending
from nemo_gym.rollouts.plan.compression import DAMAGE, holds_text, open_content
from nemo_gym.rows.identity import identity_in
from simulation.crashing_disk import CrashingDisk
from simulation.events import Ended, Event, Kind

_JOURNAL_CODES = frozenset(
    {
        "output_exists",
        "output_form",
        "output_locked",
        "damaged_output",
        "duplicate_row",
        "manifest_damaged",
        "manifest_missing",
        "run_changed",
    }
)


def whole_lines(path: Path) -> tuple[bytes, ...]:
    """Return the complete lines. For a file that cannot be decompressed, return one line with the error."""
    if not holds_text(path):
        return ()
    try:
        with open_content(path) as file:
            content = file.read()
    except DAMAGE as error:
        return (f"{path.name} is damaged: {error}".encode(),)
    return tuple(content.split(b"\n")[:-1])


def is_row(line: bytes) -> bool:
    """Return whether a line is a JSON object with a rollout's identity."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(row, dict) and identity_in(row) is not None


class FailuresFile(NamedTuple):
    """The failures file of the run's latest start. Each start moves the earlier file aside and creates a new one."""

    file: int
    """The number of earlier files that were moved aside."""
    lines: tuple[bytes, ...]

    @classmethod
    def look(cls, path: Path) -> FailuresFile:
        ending = find_ending(path)
        aside = path.parent.glob(f"{path.name.removesuffix(ending or '')}.*{ending}")
        return cls(len(list(aside)), whole_lines(path))

    def written_after(self, earlier: FailuresFile) -> tuple[bytes, ...]:
        return self.lines[len(earlier.lines) :] if self.file == earlier.file else self.lines


class LineCounts:
    """Counts rows and failures in the files, and reads the files again only after disk operations."""

    def __init__(self, files: RunFiles, disk: CrashingDisk) -> None:
        self._files = files
        self._disk = disk
        self._counted_at = -1
        self._counts = (0, 0)

    def __call__(self) -> tuple[int, int]:
        if self._disk.operations != self._counted_at:
            self._counted_at = self._disk.operations
            self._counts = (len(whole_lines(self._files.rows)), len(whole_lines(self._files.failures)))
        return self._counts


class FilesRecover:
    """A run that died at any point can be resumed, and its files hold only whole rows."""

    name = "files recover"

    def observe(self, event: Event) -> str | None:
        if event.kind is not Kind.ENDED:
            return None
        ended: Ended = event.detail
        if ended.damaged:
            return f"a line is not a row: {ended.damaged[0][:100]!r}…"
        code, _, message = ended.error.partition(": ")
        return f"the run can't be resumed: {message}" if code in _JOURNAL_CODES else None
