"""The files of an attempt's working folder: bounded while it runs, and taken out after it.

Everything that an agent leaves is hostile. Links are not followed, only regular files with one name are read, and
paths, sizes and counts are bounded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nemo_gym.isolation.confinement import MIB

MOST_ENTRIES = 20_000
"""Files and folders that are looked at."""
MOST_DEPTH = 32
"""Folders below each other that are looked into."""
_LONGEST_REPORT = 50


@dataclass(slots=True)
class TakenFiles:
    """The files that were taken out of a folder."""

    files: dict[str, str] = field(default_factory=dict)
    """Path → text."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Path → the reason why a wanted file was not taken; 50 at most."""

    def leave_out(self, path: str, reason: str) -> None:
        if len(self.left_out) < _LONGEST_REPORT:
            self.left_out[path.encode(errors="backslashreplace").decode()] = reason


def take_files(
    folder: Path, wanted: Callable[[str], bool], *, file_bytes: int = MIB, total_bytes: int = 16 * MIB
) -> TakenFiles:
    """Read the wanted files of a folder whose processes have ended: UTF-8 texts up to the given sizes."""
    taken, left_bytes = TakenFiles(), total_bytes
    for place, entry in _entries(folder):
        path = place.relative_to(folder).as_posix()
        if stat.S_ISDIR(entry.st_mode) or not wanted(path):
            continue
        reason = _refusal(entry, file_bytes, left_bytes)
        if reason is None:
            try:
                text = _read(place, min(file_bytes, left_bytes)).decode()
                path.encode()
            except (OSError, UnicodeError) as error:
                reason = type(error).__name__
        if reason is not None:
            taken.leave_out(path, reason)
            continue
        taken.files[path] = text
        left_bytes -= entry.st_size
    return taken


def _refusal(entry: os.stat_result, file_bytes: int, left_bytes: int) -> str | None:
    if not stat.S_ISREG(entry.st_mode):
        return "it is not a regular file"
    if entry.st_nlink != 1:
        return "it has several names"
    if entry.st_size > file_bytes:
        return f"it has {entry.st_size} bytes"
    return "the files are too long together" if entry.st_size > left_bytes else None


def _read(place: Path, most: int) -> bytes:
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def is_larger(folder: Path, most_bytes: int) -> bool:
    """Return whether the files of a folder take more disk space than allowed, or are too many or too deep to count.

    The folder may change meanwhile.
    """
    found_bytes, count = 0, 0
    for _, entry in _entries(folder, most=MOST_ENTRIES + 1):
        found_bytes, count = found_bytes + entry.st_blocks * 512, count + 1
        if found_bytes > most_bytes:
            return True
    return count > MOST_ENTRIES


def _entries(folder: Path, most: int = MOST_ENTRIES) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the entries below a folder, without following links, up to a number and a depth."""
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        try:
            with os.scandir(place) as found:
                for entry in found:
                    if most == 0:
                        return
                    most -= 1
                    status = entry.stat(follow_symlinks=False)
                    yield place / entry.name, status
                    if stat.S_ISDIR(status.st_mode) and depth < MOST_DEPTH:
                        waiting.append((place / entry.name, depth + 1))
        except OSError:  # gone, or closed by the agent
            continue
