"""Other surroundings for processes that start: time zone, locale, hash seed, and the clock where it can be moved.

The clock of a process is moved by libfaketime (Debian: `libfaketime`), if it is installed. Durations stay those of the
real clock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DAYS_AHEAD = 400
_PLACES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1")


def find_faketime() -> Path | None:
    """Return the library that moves clocks; None if it is not installed."""
    return next((found for place in _PLACES for found in sorted(Path("/").glob(place.lstrip("/")))), None)


def note_clock() -> str:
    """Return what a card says of the clock."""
    if find_faketime() is None:
        return "The clock was not moved after the restart: libfaketime is not installed."
    return f"After the restart the clock was {DAYS_AHEAD} days ahead."


def list_surroundings() -> dict[str, str]:
    """Return the environment variables."""
    other = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "4242"}
    library = find_faketime()
    if library is not None:
        other |= {
            "FAKETIME": f"+{DAYS_AHEAD}d",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        other["LD_PRELOAD"] = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)]))
    return other


@contextmanager
def change_surroundings() -> Iterator[None]:
    """Let processes that start meanwhile have other surroundings."""
    other = list_surroundings()
    before = {name: os.environ.get(name) for name in other}
    os.environ.update(other)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
