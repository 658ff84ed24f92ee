"""A source of attempts that is open: it gets tasks while the run goes on.

"No attempt now" and "no more attempts" are two things. A plan is an iterator, whose end is the end of the run. An
open source ends when it is told to; until then a run without rollouts in flight waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nemo_gym.rollouts.plan.plan import PlannedAttempt


class OpenSource:
    """The attempts of an open run."""

    def __init__(
        self,
        draw: Callable[[], PlannedAttempt | None],
        count_ready: Callable[[], int],
        has_left: Callable[[], bool],
    ) -> None:
        """`draw` returns the next attempt, or None if there is none now.

        `count_ready`: the number of attempts that it would return. `has_left`: whether some come later.
        """
        self._draw = draw
        self._count_ready = count_ready
        self._has_left = has_left
        self._changed = asyncio.Event()
        self.is_ended = False
        """True if no further attempt comes, though some may be left to draw."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called when there may be attempts to draw."""

    def __iter__(self) -> OpenSource:
        return self

    def __next__(self) -> PlannedAttempt:
        planned = self._draw()
        if planned is None:
            raise StopIteration  # for now
        return planned

    def bound(self, size: int, in_flight: int) -> int:
        """Return the number of workers that have something to do, at most `size`."""
        return size if in_flight >= size else min(size, in_flight + self._count_ready())

    def wake(self) -> None:
        """Tell the run that there may be attempts to draw."""
        self._changed.set()
        self.on_ready()

    def end(self) -> None:
        """Let the run end when no attempt is left."""
        self.is_ended = True
        self._changed.set()

    def close(self) -> None:
        """End, even if draws are left."""
        self._count_ready, self._has_left = lambda: 0, lambda: False
        self.end()

    async def wait_for_more(self) -> bool:
        """Wait until there are attempts to draw. Returns False if no more come."""
        while not self._count_ready():
            if self.is_ended and not self._has_left():
                return False
            self._changed.clear()
            await self._changed.wait()
        return True
