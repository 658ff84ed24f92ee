"""Cancels a handler whose client leaves before it has the whole response.

Most handlers end before a watch is worth its cost, so it begins with those that run for `WATCHED_AFTER_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from starlette.types import Message, Receive, Send

WATCHED_AFTER_S = 0.02
"""How long a handler runs before its client is watched."""


class DisconnectWatch:
    """Stands between one handler and its client: the handler uses this `receive` and `send`."""

    def __init__(self, receive: Receive, send: Send) -> None:
        """`receive`: that of a request whose body has been read."""
        self._receive = receive
        self._send = send
        self._left = asyncio.Event()
        self._is_answered = False

    @property
    def has_left(self) -> bool:
        return self._left.is_set()

    async def send(self, message: Message) -> None:
        # A client that has its whole response may leave: the handler's work after it is not cancelled.
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._is_answered = True
        await self._send(message)

    async def receive(self) -> Message:
        """Waits until the client has left."""
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def run(self, handling: Awaitable[None]) -> None:
        """Await `handling`; when the client leaves, cancel it and return."""
        handler = asyncio.current_task()
        assert handler is not None
        watcher: asyncio.Task[None] | None = None

        async def watch() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass
            self._left.set()
            if not self._is_answered:
                handler.cancel()

        def begin() -> None:
            nonlocal watcher
            watcher = asyncio.ensure_future(watch())

        beginning = asyncio.get_running_loop().call_later(WATCHED_AFTER_S, begin)
        try:
            await handling
        except asyncio.CancelledError:
            if not self._left.is_set():
                raise
            handler.uncancel()
        finally:
            self._is_answered = True
            beginning.cancel()
            if watcher is not None:
                watcher.cancel()
