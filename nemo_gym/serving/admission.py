"""The limit of requests that one replica handles at once: `placement.max_in_flight`.

Requests above it wait in order. A session that holds a place needs no second one, so a server may call itself for the
same rollout; and closing a session never waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.serving.own_routes import is_about_server
from nemo_gym.transport.context import current_context

_CLOSING = ("/close_session", "/close")


class AdmissionLimit:
    """A layer of an app: at most `most` sessions have requests in the handlers."""

    def __init__(self, most: int) -> None:
        self._places = asyncio.Semaphore(most)
        self._inside: Counter[str] = Counter()
        """Session → its requests in the handlers."""

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        context = current_context.get()
        if context is None or scope["path"] in _CLOSING or is_about_server(scope):
            await handler(scope, receive, send)
            return
        await self._enter(context.session)
        try:
            await handler(scope, receive, send)
        finally:
            self._leave(context.session)

    async def _enter(self, session: str) -> None:
        if not self._inside[session]:
            await self._places.acquire()
            if self._inside[session]:  # another request of the session entered meanwhile
                self._places.release()
        self._inside[session] += 1

    def _leave(self, session: str) -> None:
        self._inside[session] -= 1
        if not self._inside[session]:
            del self._inside[session]
            self._places.release()
