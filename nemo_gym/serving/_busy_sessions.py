"""The sessions whose requests a replica handles, for the launcher that waits until the replica can be removed."""

from __future__ import annotations

from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.serving.own_routes import is_about_server
from nemo_gym.transport.context import current_context


class BusySessions:
    """A layer of an app: it counts the requests of each session in the handlers."""

    def __init__(self) -> None:
        self._inside: Counter[str] = Counter()

    def names(self) -> set[str]:
        """Return the sessions with requests in the handlers."""
        return set(self._inside)

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        context = current_context.get()
        if context is None or is_about_server(scope):
            await handler(scope, receive, send)
            return
        session = context.session
        self._inside[session] += 1
        try:
            await handler(scope, receive, send)
        finally:
            self._inside[session] -= 1
            if not self._inside[session]:
                del self._inside[session]
