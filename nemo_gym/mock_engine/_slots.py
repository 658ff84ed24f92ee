"""Room for requests: an engine works at so many at once, lets some wait, and refuses the rest."""

from __future__ import annotations

import asyncio


class Slots:
    """Acquired for as long as a request is worked on."""

    def __init__(self, working: int | None, waiting: int | None) -> None:
        """`working` at once and `waiting` for that; None for any number."""
        self._slots = asyncio.Semaphore(working) if working is not None else None
        self._most_waiting = waiting
        self._waiting = 0

    @property
    def are_busy(self) -> bool:
        """Whether a request has to wait."""
        return self._slots is not None and self._slots.locked()

    @property
    def are_taken(self) -> bool:
        """Whether one request more would be too many."""
        return self.are_busy and self._most_waiting is not None and self._waiting >= self._most_waiting

    async def acquire(self) -> None:
        """Wait for room."""
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
