"""The one reader of a session, and the time since the session heard of anybody."""

from __future__ import annotations

import asyncio

from nemo_gym import clock
from nemo_gym.failures import InputError

_SIGN_EVERY_S = 2.0


class GroupReading:
    """Who reads the groups of a session."""

    def __init__(self) -> None:
        self._reader: str | None = None
        self._number = 0
        """Counts the streams, so that an old one ends when its reader comes back."""
        self._changed = asyncio.Event()
        self.seen_at = clock.monotonic()
        """The time of the last request."""

    @property
    def is_active(self) -> bool:
        return self._reader is not None

    def begin(self, reader: str, *, takeover: bool) -> int:
        """Begin a stream for a reader; its earlier one ends. Raises `InputError` if there is another reader."""
        if self._reader not in (None, reader) and not takeover:
            raise InputError(
                "the session has another reader",
                code="second_reader",
                status=409,
                remedy="A group goes to one reader; pass takeover=true if the other one is gone.",
            )
        self._reader = reader
        self._number += 1
        self.wake()
        return self._number

    def end(self, number: int) -> None:
        """End a stream, unless another one has replaced it."""
        if number == self._number:
            self._reader = None

    def is_current(self, number: int) -> bool:
        return number == self._number

    def wake(self) -> None:
        """Tell the stream that something has changed."""
        self._changed.set()

    async def wait(self) -> bool:
        """Wait for a change. Returns False if there was none for a while."""
        self._changed.clear()
        try:
            async with asyncio.timeout(_SIGN_EVERY_S):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True
