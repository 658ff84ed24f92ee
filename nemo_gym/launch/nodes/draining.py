"""The wait until replicas that leave have finished their sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from nemo_gym.failures import TransportError
from nemo_gym.launch._states import TERMINAL_STATES
from nemo_gym.launch._supervisor import SupervisedServer
from nemo_gym.names import HEAD_SERVER, SESSIONS_ROUTE, TOKEN_HEADER
from nemo_gym.transport import Call, call_once
from nemo_gym.transport.directory import choose_home

LEARNT_WITHIN_S = 3.0
"""Seconds after a change of the directory in which its callers have learnt it: more than the time between two requests
for it."""
_ASK_EVERY_S = 0.5
_ANSWER_WITHIN_S = 10.0
_MODELS = "responses_api_models"


AskSessions = Callable[[SupervisedServer], Awaitable[set[str] | None]]
"""Returns the sessions that a server has; None if it does not answer."""


@dataclass(frozen=True, slots=True)
class Draining:
    """Waits until replicas have no sessions."""

    servers: Sequence[SupervisedServer]
    """All processes of the gym, kept current."""
    ask: AskSessions
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def wait(
        self, leaving: Sequence[SupervisedServer], before: int, after: int, timeout_s: float
    ) -> list[str]:
        """Wait until replicas of one server have no session any more. Returns those that they have after `timeout_s`.

        The server has `before` replicas, of which `after` stay.
        """
        give_up_at = time.monotonic() + timeout_s
        await self.sleep(min(LEARNT_WITHIN_S, timeout_s))
        rollouts: set[str] | None = None
        while True:
            own = await self._list_sessions(leaving)
            now = await self._find_rollouts(leaving, before, after)
            if now is not None:  # later rollouts are elsewhere
                rollouts = now if rollouts is None else rollouts & now
            left = (own or set()) | (rollouts or set())
            is_known = own is not None and rollouts is not None
            if (is_known and not left) or time.monotonic() >= give_up_at:
                return sorted(left)
            await self.sleep(_ASK_EVERY_S)

    async def _find_rollouts(
        self, leaving: Sequence[SupervisedServer], before: int, after: int
    ) -> set[str] | None:
        """Return the sessions of rollouts whose conversations are at a leaving model server.

        A model server has no session between two calls of a rollout, but it has the rollout's conversation. None if a
        server does not answer.
        """
        if leaving[0].kind != _MODELS:
            return set()
        others = [each for each in self.servers if each.kind not in (_MODELS, HEAD_SERVER)]
        sessions = await self._list_sessions(others)
        return sessions and {each for each in sessions if choose_home(each, before) >= after}

    async def _list_sessions(self, servers: Sequence[SupervisedServer]) -> set[str] | None:
        """Return the sessions of the servers whose processes run; None if one of them does not answer."""
        running = [each for each in servers if each.state not in TERMINAL_STATES and each.pid is not None]
        sessions: set[str] = set()
        for found in await asyncio.gather(*map(self.ask, running)):
            if found is None:
                return None
            sessions |= found
        return sessions


def ask_with(token: str) -> AskSessions:
    """Return the function that asks servers of the run with this token."""

    async def ask(server: SupervisedServer) -> set[str] | None:
        call = Call("GET", SESSIONS_ROUTE, headers={TOKEN_HEADER: token})
        try:
            reply = await call_once(server.url, call, ca=server.ca, timeout_s=_ANSWER_WITHIN_S)
        except TransportError:
            return None  # it is busy, or its process has just ended
        if reply.status == HTTPStatus.NOT_FOUND:
            return set()  # a custom server without the route
        return set(reply.json()) if reply.ok else None

    return ask
