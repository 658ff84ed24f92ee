"""The lines that a failed server logged around a failure.

A run's manifest names the folder of its servers' logs, and a failure row has its time. The lines of a log are in order
of time, so that their part is found without reading the log.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_failed_servers
from nemo_gym.rows.verdict import read_failed_at

_BEFORE_S: Final = 60.0
_AFTER_S: Final = 2.0
_MOST_FILES: Final = 4
_MOST_LINES: Final = 20
_MOST_CHARS: Final = 500
_MOST_BYTES: Final = 1 << 16
_INLINE: Final = "inline"
"""The name of the log of all servers in one process."""
_UNSAFE: Final = re.compile(r"[^\w.-]+")
_STAMP_BYTES: Final = 24
_STAMP: Final = re.compile(rb"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3}(Z?) ", re.MULTILINE)
"""Times without `Z` are local: those of logs that earlier versions wrote."""


def read_failure_logs(row: AnyRow, logs: Path | None) -> list[dict[str, Any]]:
    """Return the name and the last lines of each log of the server that failed in a failure row, as JSON.

    The lines are those of the minute before the failure, at most 20. None are known for a row without a time, and for
    a server without a log, such as an engine; then they are those of the next server on the way of the failure.
    """
    servers, moment = read_failed_servers(row), read_failed_at(row)
    if logs is None or moment is None or servers is None:
        return []
    servers.append(_INLINE)
    found = next((files for server in servers if (files := _list_logs(logs, str(server)))), [])
    parts = ({"file": path.name, "lines": list(lines_around(path, moment))} for path in found)
    return [part for part in parts if part["lines"]]


def _list_logs(folder: Path, server: str) -> list[Path]:
    """Return the logs of a server: one for each replica. A link is not a log that a gym wrote."""
    name = _UNSAFE.sub("_", server)
    replicas = sorted(folder.glob(f"{name}.[0-9]*.log"))
    files = (path for path in (folder / f"{name}.log", *replicas) if path.is_file() and not path.is_symlink())
    return list(files)[:_MOST_FILES]


def lines_around(path: Path, moment: float | None) -> Iterator[str]:
    """Yield the lines of the minute before `moment`, at most 20; the last lines without one."""
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start, end = 0, len(content)
        if moment is not None:
            start, end = _first_from(content, moment - _BEFORE_S), _first_from(content, moment + _AFTER_S)
        text = content[max(start, end - _MOST_BYTES) : end].decode(errors="replace")
    for line in text.splitlines()[-_MOST_LINES:]:
        yield line if len(line) <= _MOST_CHARS else f"{line[:_MOST_CHARS]}…"


def _first_from(content: mmap.mmap, moment: float) -> int:
    """Return the offset of the first line of a log that has a time and is as late as `moment`.

    No part is read twice, however long the lines without a time are.
    """
    low, high, first = 0, len(content), len(content)
    while low < high:
        middle = (low + high) // 2
        found = next(_find_timed_lines(content, middle, high + _STAMP_BYTES), None)
        if found is not None and found.moment < moment:
            low = found.start + _STAMP_BYTES
        else:
            high, first = middle, first if found is None else found.start
    return first


class _TimedLine(NamedTuple):
    start: int
    moment: float


def _find_timed_lines(content: mmap.mmap, start: int, end: int) -> Iterator[_TimedLine]:
    for found in _STAMP.finditer(content, start, end):
        with suppress(ValueError, OverflowError):  # a text that only looks like a time
            yield _TimedLine(
                found.start(), datetime.fromisoformat((found[1] + found[2]).decode()).timestamp()
            )
