"""Deterministic sources of time, ids and randomness, and a handler for the gym's log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from nemo_gym.clock import Sources

_BOOTED_AT = 1_000.0
_BEGAN_AT = 1_800_000_000.0


class SeededSources(Sources):
    """Virtual time, and ids and generators drawn from one seed."""

    def __init__(self, rng: Random, clock: Callable[[], float]) -> None:
        self._rng = rng
        self._clock = clock

    def monotonic(self) -> float:
        return _BOOTED_AT + self._clock()

    def wall_clock(self) -> float:
        return _BEGAN_AT + self._clock()

    def hex_id(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    def rng(self) -> Random:
        return Random(self._rng.getrandbits(64))


class _Errors(logging.Handler):
    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        self._report(f"{record.name} logged: {record.getMessage()}")


@contextmanager
def errors_reported_to(report: Callable[[str], None]) -> Iterator[None]:
    """Pass the gym's error log records to `report` and drop lower levels while the block runs."""
    log = logging.getLogger("nemo_gym")
    handler, level, propagates = _Errors(report), log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.ERROR)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates
