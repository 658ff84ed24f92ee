"""The sources of time, ids and randomness, which are all replaceable.

All code of the gym uses these functions. With deterministic sources in place, a whole run including faults is
reproducible in virtual time from one seed (`simulation`). Cryptographic keys and tokens always come from the system.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

__all__ = ["hex_id", "monotonic", "rng"]

_ids = random.Random()
os.register_at_fork(after_in_child=_ids.seed)  # forked servers must not generate equal ids


class Sources:
    """The system's clock, ids and randomness. Subclasses replace them."""

    monotonic: Callable[..., float] = staticmethod(
        time.monotonic
    )  # every call and request is timed: one call less
    wall_clock: Callable[..., float] = staticmethod(time.time)

    def hex_id(self) -> str:
        return f"{_ids.getrandbits(128):032x}"  # ten times cheaper than os.urandom

    def rng(self) -> random.Random:
        return random.Random()


_sources = _of_rollouts = Sources()


def write_time(seconds: float, timespec: str = "seconds") -> str:
    """Return a time of the wall clock in UTC, as files of runs have it: "2026-01-31T12:00:00+00:00"."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec)


def monotonic() -> float:
    """Return seconds on a monotonic clock; only differences are meaningful."""
    return _sources.monotonic()


@dataclass(slots=True)
class Pause:
    """The pauses of this process's rollouts: their clock stands still meanwhile."""

    since: float | None = None
    """The start of the pause on the monotonic clock; None without one."""
    seconds: float = 0.0
    """The length of all earlier pauses."""
    has_begun: bool = False
    """Whether there has been a pause in this process."""

    def begin(self) -> None:
        """Stop the clock of rollouts. Idempotent."""
        global _of_rollouts
        if self.since is None:
            self.has_begun = True
            self.since, _of_rollouts = monotonic(), _PausedSources()

    def end(self) -> None:
        """Let it run again. Idempotent."""
        if self.since is not None:
            self.seconds += monotonic() - self.since
            self.since = None


pause = Pause()
"""One per process, because a process has one clock."""


class _PausedSources(Sources):
    """The clock of rollouts of a process that has had a pause."""

    def monotonic(self) -> float:
        return (_sources.monotonic() if pause.since is None else pause.since) - pause.seconds


def rollout_time() -> float:
    """Return seconds on the clock of rollouts: the monotonic clock without the pauses of runs.

    Deadlines, sessions and circuit breakers go by it, so that a pause is no outage.
    """
    return _of_rollouts.monotonic()


def wall_clock() -> float:
    """Return seconds since 1970."""
    return _sources.wall_clock()


def log_time(moment: float) -> str:
    """Return a time in seconds since 1970 as logs have it: in UTC, because local times can repeat."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S},{int(moment % 1 * 1000):03d}Z"


def hex_id() -> str:
    """Return a unique id of 32 hexadecimal digits."""
    return _sources.hex_id()


def rng() -> random.Random:
    """Return a new, independently seeded random generator."""
    return _sources.rng()


@contextmanager
def replaced_by(sources: Sources) -> Iterator[None]:
    """Use `sources` in the whole process while the block runs."""
    global _sources, _of_rollouts
    before, _sources = _sources, sources
    _of_rollouts = _PausedSources() if pause.seconds or pause.since is not None else sources
    try:
        yield
    finally:
        _sources = _of_rollouts = before
