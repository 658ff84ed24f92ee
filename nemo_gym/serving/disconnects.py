"""Cancels a handler when its client disconnects before the complete response.

Most handlers end before watching is worth its cost, so only handlers that run for `WATCHED_AFTER_S` are watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Message, Receive

WATCHED_AFTER_S = 0.02
"""Seconds that a handler runs before its client is watched."""


class DisconnectWatch:
    """Wraps `receive` of one request and watches for the client's disconnect."""

    def __init__(self, receive: Receive, is_answered: Callable[[], bool] = lambda: False) -> None:
        """`receive` must belong to a request whose body has been read.

        `is_answered` returns whether the response is complete: then a disconnect no longer cancels the handler.
        """
        self._receive = receive
        self._is_answered = is_answered
        self._left = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None

    @property
    def has_disconnected(self) -> bool:
        return self._left.is_set()

    async def receive(self) -> Message:
        """Wait until the client has disconnected."""
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def run(self, handling: Awaitable[None]) -> None:
        """Await `handling`; cancel it and return when the client disconnects."""
        handler = asyncio.current_task()
        assert handler is not None
        beginning = asyncio.get_running_loop().call_later(WATCHED_AFTER_S, self._begin, handler)
        try:
            await handling
        except asyncio.CancelledError:
            if not self._left.is_set():
                raise
            handler.uncancel()
        finally:
            beginning.cancel()
            if self._watcher is not None:
                self._watcher.cancel()
                self._watcher = None  # its traceback refers to this object

    def _begin(self, handler: asyncio.Task[object]) -> None:
        self._watcher = asyncio.ensure_future(self._watch(handler))

    async def _watch(self, handler: asyncio.Task[object]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left.set()
        if not self._is_answered():
            handler.cancel()
