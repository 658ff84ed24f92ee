"""Where time, ids and chance come from: all that two runs of the same program may differ in.

What the gym waits by, names things with and draws from is asked for here, and nowhere else. So a whole run, faults
included, can be played in virtual time from one seed (`simulation`): with other sources in place it is the
same run again. Keys and tokens that secure a run are no part of this: they come from the system, always.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

_ids = random.Random()
os.register_at_fork(after_in_child=_ids.seed)  # a forked server must not name things as its siblings do


class Sources:
    """The system's own clock, ids and randomness."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_clock(self) -> float:
        return time.time()

    def hex_id(self) -> str:
        return f"{_ids.getrandbits(128):032x}"  # a tenth of what asking the system each time costs

    def rng(self) -> random.Random:
        return random.Random()


_sources = Sources()


def monotonic() -> float:
    """Seconds on a clock that never goes back; only differences mean anything."""
    return _sources.monotonic()


def wall_clock() -> float:
    """Seconds since 1970."""
    return _sources.wall_clock()


def hex_id() -> str:
    """An id that nobody else has: 32 hexadecimal digits."""
    return _sources.hex_id()


def rng() -> random.Random:
    """A generator of one's own, seeded anew."""
    return _sources.rng()


@contextmanager
def replaced_by(sources: Sources) -> Iterator[None]:
    """Ask `sources` instead, in the whole process, while the block runs."""
    global _sources
    before, _sources = _sources, sources
    try:
        yield
    finally:
        _sources = before
