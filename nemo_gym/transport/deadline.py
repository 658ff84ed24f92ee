"""A deadline as an instant, so that it shrinks by itself on every hop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nemo_gym import clock as sources

DEADLINE_HEADER = "x-ng-deadline"
"""The header that tells a callee how many seconds are left, a decimal."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant on the monotonic clock of this process, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = sources.monotonic) -> Deadline:
        return cls(clock() + seconds)

    def seconds_left(self, clock: Callable[[], float] = sources.monotonic) -> float:
        return self.at - clock()
