"""A rollout's deadline as an instant, so that the seconds left decrease from hop to hop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from nemo_gym import clock

DEADLINE_HEADER = "x-ng-deadline"
"""The header with the seconds left, a decimal number."""


class Deadline(NamedTuple):
    """An instant on the monotonic clock of this process, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = clock.monotonic) -> Deadline:
        return cls(clock() + seconds)

    def seconds_left(self, clock: Callable[[], float] = clock.monotonic) -> float:
        return self.at - clock()


class Timer:
    """Cancels the current task after some seconds, or when `expire` is called, unless it is stopped before.

    `asyncio.timeout` does so with three times the instructions, and a rollout has eight calls with a deadline.
    """

    __slots__ = ("_cancelled_before", "_handle", "_has_expired", "_task")

    def __init__(self, seconds: float | None) -> None:
        """`seconds`: None for a timer that expires only by `expire`."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelled_before = task.cancelling()
        self._has_expired = False
        self._handle: asyncio.TimerHandle | None = None
        if seconds is not None:
            self._handle = asyncio.get_running_loop().call_later(seconds, self.expire)

    def stop(self) -> None:
        """Take back what is left of the timer: its schedule, or its cancellation after another error."""
        if self._handle is not None:
            self._handle.cancel()
        if self._has_expired:
            self.takes_back_cancellation()

    def takes_back_cancellation(self) -> bool:
        """Return whether this timer alone has cancelled the task; then its cancellation is taken back."""
        if not self._has_expired:
            return False
        self._has_expired = False
        return self._task.uncancel() <= self._cancelled_before

    def expire(self) -> None:
        """Cancel the task. Idempotent."""
        if not self._has_expired:
            self._has_expired = True
            self._task.cancel()
