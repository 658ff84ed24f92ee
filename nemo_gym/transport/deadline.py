"""A rollout's deadline as an instant, so that the seconds left decrease from hop to hop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import NamedTuple

from nemo_gym import clock
from nemo_gym.clock import pause

__all__ = ["Timer"]

DEADLINE_HEADER = "x-ng-deadline"
"""The header with the seconds left, a decimal number."""
_LOOK_EVERY_S = 0.5
"""Interval in which a timer looks whether a pause is over."""


class Deadline(NamedTuple):
    """An instant on the clock of rollouts of this process, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = clock.rollout_time) -> Deadline:
        return cls(clock() + seconds)

    def seconds_left(self, clock: Callable[[], float] = clock.rollout_time) -> float:
        return self.at - clock()


class Timer:
    """Cancels the current task after some seconds, or when `expire` is called, unless it is stopped before.

    `asyncio.timeout` does so with three times the instructions, and a rollout has eight calls with a deadline. Most are
    stopped long before they expire, so one that is due in a later second costs no timer of the event loop until then.
    The pauses of a run do not count.
    """

    __slots__ = ("_cancelled_before", "_handle", "_has_expired", "_paused_s", "_task", "_waiting", "at")

    def __init__(self, seconds: float | None) -> None:
        """`seconds`: None for a timer that expires only by `expire`."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelled_before = task.cancelling()
        self._has_expired = False
        self._handle: asyncio.TimerHandle | None = None
        self._waiting: dict[Timer, None] | None = None
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self.at = loop.time() + seconds
            """The time at which it expires, on the event loop's clock; a pause defers it at its end, by its length."""
            if pause.has_begun:
                self._note_pauses()
            self._waiting = _find_timers(loop).wait(self)

    def _note_pauses(self) -> None:
        """Leave out the pauses before this timer, and the part of one that is over."""
        self._paused_s = pause.seconds
        if pause.since is not None:
            self.at -= clock.monotonic() - pause.since

    @property
    def _paused_before(self) -> float:
        """The pauses that were over when this timer was set, or deferred last."""
        return getattr(self, "_paused_s", 0.0)  # without one since the start of the process, nothing is noted

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the event loop call `expire` at its time."""
        self._waiting = None
        self._handle = loop.call_at(self.at, self._end)

    def stop(self) -> None:
        """Take back what is left of the timer: its schedule, or its cancellation after another error."""
        if self._waiting is not None:
            self._waiting.pop(self, None)
        elif self._handle is not None:
            self._handle.cancel()
        if self._has_expired:
            self.takes_back_cancellation()

    def takes_back_cancellation(self) -> bool:
        """Return whether this timer alone has cancelled the task; then its cancellation is taken back."""
        if not self._has_expired:
            return False
        self._has_expired = False
        # A cancellation from outside that came meanwhile is not this timer's to take back.
        return self._task.uncancel() <= self._cancelled_before

    def defer(self) -> None:
        """Let it expire later, by the pauses that have ended since its start."""
        self.at += pause.seconds - self._paused_before
        self._paused_s = pause.seconds

    def wait_again(self, timers: _Timers) -> None:
        """Wait for another second."""
        self._waiting = timers.wait(self)

    def _end(self) -> None:
        """Expire, unless there is a pause, or was one since the start."""
        loop = asyncio.get_running_loop()
        if pause.since is not None:
            self._handle = loop.call_later(_LOOK_EVERY_S, self._end)
        elif self._paused_before != pause.seconds:
            self.defer()
            self.start(loop)
        else:
            self.expire()

    def expire(self) -> None:
        """Cancel the task. Idempotent."""
        if not self._has_expired:
            self._has_expired = True
            self._task.cancel()


class _Timers:
    """The timers of one event loop that wait for the second in which they expire."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._by_second: dict[int, dict[Timer, None]] = {}
        self._is_awake = False
        self._paused_s = 0.0
        """The pauses by which the waiting timers were deferred."""

    def wait(self, timer: Timer) -> dict[Timer, None] | None:
        """Start the timer if it is due in this second. Otherwise return those that wait for the same second."""
        now, second = int(self.loop.time()), int(timer.at)
        if second <= now:
            timer.start(self.loop)
            return None
        waiting = self._by_second.get(second)
        if waiting is None:
            waiting = self._by_second[second] = {}
        waiting[timer] = None
        if not self._is_awake:
            self._is_awake = True
            self._paused_s = pause.seconds
            self.loop.call_at(now + 1, self._start_due)
        return waiting

    def _start_due(self) -> None:
        """Start the timers of this second, and come back in the next one while any wait."""
        if pause.since is not None:
            self.loop.call_later(_LOOK_EVERY_S, self._start_due)
            return
        if pause.seconds != self._paused_s:
            self._defer()
        now = int(self.loop.time())
        for second in [second for second in self._by_second if second <= now]:
            for timer in self._by_second.pop(second):
                timer.start(self.loop)
        self._is_awake = any(self._by_second.values())
        if self._is_awake:
            self.loop.call_at(now + 1, self._start_due)
        else:
            self._by_second.clear()

    def _defer(self) -> None:
        """Let the waiting timers wait longer, by the pauses since the start of each."""
        self._paused_s = pause.seconds
        waiting, self._by_second = self._by_second, {}
        for timer in (timer for timers in waiting.values() for timer in timers):
            timer.defer()
            timer.wait_again(self)


_of_thread = threading.local()


def _find_timers(loop: asyncio.AbstractEventLoop) -> _Timers:
    """Return the timers of the running event loop."""
    timers: _Timers | None = getattr(_of_thread, "timers", None)
    if timers is None or timers.loop is not loop:
        timers = _of_thread.timers = _Timers(loop)
    return timers
