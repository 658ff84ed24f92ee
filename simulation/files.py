"""What is in a run's files at this moment, for somebody who comes and looks: whole lines, decompressed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import orjson

from nemo_gym.rollouts.output.files import RunFiles, ending_of
from nemo_gym.rollouts.plan.compression import DAMAGE, holds_text, open_content
from nemo_gym.rollouts.plan.identity import identity_in
from simulation.mortal_disk import MortalDisk


def whole_lines(path: Path) -> tuple[bytes, ...]:
    """The lines that are ended. A file that can't be decompressed has one, which is no row and says why."""
    if not holds_text(path):
        return ()
    try:
        with open_content(path) as file:
            content = file.read()
    except DAMAGE as error:
        return (f"{path.name} is damaged: {error}".encode(),)
    return tuple(content.split(b"\n")[:-1])


def is_row(line: bytes) -> bool:
    """Whether a line is a JSON object that says which rollout it belongs to."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(row, dict) and identity_in(row) is not None


class FailuresFile(NamedTuple):
    """The failures file of the run's latest start; each start that gets so far moves it aside and begins another."""

    file: int
    """How many were moved aside before it."""
    lines: tuple[bytes, ...]

    @classmethod
    def look(cls, path: Path) -> FailuresFile:
        ending = ending_of(path)
        aside = path.parent.glob(f"{path.name.removesuffix(ending or '')}.*{ending}")
        return cls(len(list(aside)), whole_lines(path))

    def written_after(self, earlier: FailuresFile) -> tuple[bytes, ...]:
        return self.lines[len(earlier.lines) :] if self.file == earlier.file else self.lines


class LineCounts:
    """How many rows and failures are in the files; they are read again when something was done on the disk."""

    def __init__(self, files: RunFiles, disk: MortalDisk) -> None:
        self._files = files
        self._disk = disk
        self._counted_at = -1
        self._counts = (0, 0)

    def __call__(self) -> tuple[int, int]:
        if self._disk.operations != self._counted_at:
            self._counted_at = self._disk.operations
            self._counts = (len(whole_lines(self._files.rows)), len(whole_lines(self._files.failures)))
        return self._counts
