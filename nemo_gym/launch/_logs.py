"""One log file per server, and the cause of a death in its last lines."""

from __future__ import annotations

import os
import re
import shutil
from datetime import datetime
from pathlib import Path

from nemo_gym.discovery_files import is_alive

TAIL_BYTES = 1 << 16
TAIL_LINES = 20
KEPT_FOLDERS = 50
"""The number of gyms whose logs are kept; older logs are removed when a gym starts."""
MAX_BYTES = 64 << 20
"""The size at which a log is rotated. The last part before it is kept in a second file."""
KEPT_BYTES = 16 << 20
"""The size of that part."""
_FOLDER_NAME = re.compile(r"\d{8}_\d{6}_(\d+)(_\d+)?")
_OWN_ERROR = re.compile(r"\Anemo_gym\.[\w.]+: ")
"""The class of an error of the gym, whose message says all."""
_OF_LAUNCHER = re.compile(r"--- (restart \d+|rotated; .*) ---")
"""The lines that `append` writes between the starts of a process."""
_SAFE_NAME = re.compile(r"[^\w.-]+")


def new_log_folder(parent: Path, now: datetime) -> Path:
    """Create a folder `<parent>/<date>_<time>_<pid>` that only this user can read."""
    folder = parent / f"{now:%Y%m%d_%H%M%S}_{os.getpid()}"
    number = 1
    while True:
        try:
            folder.mkdir(parents=True, mode=0o700)
            return folder
        except FileExistsError:
            number += 1
            folder = parent / f"{now:%Y%m%d_%H%M%S}_{os.getpid()}_{number}"


def prune(parent: Path, keep: int = KEPT_FOLDERS) -> None:
    """Remove all but the latest log folders in `parent`, except those of running gyms."""
    matches = ((_FOLDER_NAME.fullmatch(folder.name), folder) for folder in parent.iterdir())
    folders = sorted((folder.name, int(match[1]), folder) for match, folder in matches if match)
    for _, pid, folder in folders[:-keep]:
        if not is_alive(pid):
            shutil.rmtree(folder, ignore_errors=True)  # another gym may remove it at the same time


def log_path(folder: Path, server: str, replica: int, replicas: int) -> Path:
    """`<folder>/<server>.log`, with the replica's number if there are several."""
    suffix = f".{replica}" if replicas > 1 else ""
    return folder / f"{_SAFE_NAME.sub('_', server)}{suffix}.log"


def size(path: Path) -> int:
    """Current size of the log in bytes; 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0


def rotate(path: Path, max_bytes: int = MAX_BYTES, kept_bytes: int = KEPT_BYTES) -> None:
    """Empty a log that is larger than `max_bytes`, after copying its end to `<path>.1`.

    Processes that append to the log keep their descriptors. Lines written during the copy are lost.
    """
    if size(path) <= max_bytes:
        return
    with path.open("rb") as full, path.with_name(f"{path.name}.1").open("wb") as older:
        full.seek(-kept_bytes, os.SEEK_END)
        older.write(full.read(kept_bytes))
    os.truncate(path, 0)
    append(path, f"rotated; earlier lines are in {path.name}.1")


def append(path: Path, line: str) -> None:
    """Append a line of the launcher to a server's log."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"--- {line} ---\n")


def tail(path: Path, *, since: int = 0) -> list[str]:
    """The last lines of `path` written after byte `since`."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        since = since if since <= end else 0  # it was rotated since then
        file.seek(max(since, end - TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()


def root_cause(lines: list[str]) -> str | None:
    """The exception that ended the process, with its full message; None without a traceback.

    Frames of a traceback are indented, so the exception is the first unindented line after them.
    """
    start = max((number for number, line in enumerate(lines) if line.startswith("Traceback (")), default=None)
    if start is None:
        return None
    for number in range(start + 1, len(lines)):
        if lines[number] and not lines[number].startswith(" "):
            raised = "\n".join(lines[number : number + TAIL_LINES]).rstrip()
            return _OWN_ERROR.sub("", raised)
    return None


def explain_death(path: Path, *, since: int = 0) -> str:
    """The cause of death of the process that wrote to `path` from byte `since` on: its exception, or its last lines.

    Of several starts, the last one that wrote anything explains it.
    """
    starts: list[list[str]] = [[]]
    for line in tail(path, since=since):
        if _OF_LAUNCHER.fullmatch(line):
            starts.append([])
        else:
            starts[-1].append(line)
    lines = next((lines for lines in reversed(starts) if any(line.strip() for line in lines)), [])
    return root_cause(lines) or "\n".join(lines[-TAIL_LINES:]) or "it wrote nothing to its log"
