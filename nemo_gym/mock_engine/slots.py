"""Room for requests: an engine works at so many at once, lets some wait, and refuses the rest."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Slots:
    """Entered for as long as a request is worked on; entering waits for room."""

    def __init__(self, working: int | None, waiting: int | None) -> None:
        """`working` at once and `waiting` for that; None for any number."""
        self._slots = asyncio.Semaphore(working) if working is not None else None
        self._most_waiting = waiting
        self._waiting = 0

    @property
    def are_taken(self) -> bool:
        """Whether one request more would be too many."""
        if self._slots is None or self._most_waiting is None:
            return False
        return self._slots.locked() and self._waiting >= self._most_waiting

    async def __aenter__(self) -> None:
        if self._slots is None:
            return
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._slots is not None:
            self._slots.release()
