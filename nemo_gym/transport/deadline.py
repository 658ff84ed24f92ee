"""A rollout's deadline as an instant, so that the seconds left decrease from hop to hop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nemo_gym import clock

DEADLINE_HEADER = "x-ng-deadline"
"""The header with the seconds left, a decimal number."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant on the monotonic clock of this process, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = clock.monotonic) -> Deadline:
        return cls(clock() + seconds)

    def seconds_left(self, clock: Callable[[], float] = clock.monotonic) -> float:
        return self.at - clock()
