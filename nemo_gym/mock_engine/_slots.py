"""Admission of requests: a limited number runs, a limited number waits, and the rest is refused."""

from __future__ import annotations

import asyncio


class Slots:
    """A request holds one slot while it runs."""

    def __init__(self, working: int | None, waiting: int | None) -> None:
        """`working`: the maximum of running requests; `waiting`: of queued ones. None means no limit."""
        self._slots = asyncio.Semaphore(working) if working is not None else None
        self._most_waiting = waiting
        self._waiting = 0

    @property
    def must_wait(self) -> bool:
        """True if the next request has to wait."""
        return self._slots is not None and self._slots.locked()

    @property
    def are_full(self) -> bool:
        """True if the next request has to be refused."""
        return self.must_wait and self._most_waiting is not None and self._waiting >= self._most_waiting

    async def acquire(self) -> None:
        """Wait for a free slot."""
        if self._slots is None:
            return
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1

    def release(self) -> None:
        if self._slots is not None:
            self._slots.release()
