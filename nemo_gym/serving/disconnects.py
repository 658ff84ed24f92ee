"""Cancels a handler when its client disconnects before the complete response.

The gym's listener tells of it at once (`UvicornSend.on_disconnect`). Elsewhere a task waits for the message. Most
handlers end before that is worth its cost, so only those that run for `WATCHED_AFTER_S` are watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from starlette.types import Message, Receive

WATCHED_AFTER_S = 0.02
"""Seconds that a handler runs before its client is watched."""


Teller: TypeAlias = Callable[[Callable[[], None] | None], None]
"""Takes a function to call when the client disconnects, or None to call none."""


class DisconnectWatch:
    """Wraps `receive` of one request and watches for the client's disconnect."""

    def __init__(
        self, receive: Receive, is_answered: Callable[[], bool] = lambda: False, teller: Teller | None = None
    ) -> None:
        """`receive` must belong to a request whose body has been read.

        `is_answered` returns whether the response is complete: then a disconnect no longer cancels the handler.
        `teller`: the listener's, if it has one.
        """
        self._receive = receive
        self._is_answered = is_answered
        self._teller = teller
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
        end = self._tell(handler) if self._teller is not None else self._watch_soon(handler)
        try:
            await handling
        except asyncio.CancelledError:
            if not self._left.is_set():
                raise
            handler.uncancel()
        finally:
            end()

    def _tell(self, handler: asyncio.Task[Any]) -> Callable[[], None]:
        """Let the listener tell of the disconnect. Returns a function that ends it."""
        assert self._teller is not None
        self._teller(partial(self._leave, handler))
        return partial(self._teller, None)

    def _watch_soon(self, handler: asyncio.Task[Any]) -> Callable[[], None]:
        """Watch for the disconnect after `WATCHED_AFTER_S`. Returns a function that ends it."""

        def begin() -> None:
            self._watcher = asyncio.ensure_future(self._watch(handler))

        beginning = asyncio.get_running_loop().call_later(WATCHED_AFTER_S, begin)

        def end() -> None:
            beginning.cancel()
            if self._watcher is not None:
                self._watcher.cancel()
                self._watcher = None  # its traceback refers to this object

        return end

    async def _watch(self, handler: asyncio.Task[Any]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._leave(handler)

    def _leave(self, handler: asyncio.Task[Any]) -> None:
        self._left.set()
        if not self._is_answered():
            handler.cancel()
