"""Who acts in a session: any number of its calls at once, or one request that opens or closes it.

What frees a session's state finds nobody at work with it, although its agent has gone away in the middle of a tool
call, or before the session was even open.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

CALLS_END_WITHIN_S = 3.0
"""How long a session's calls are waited for, so that one that hangs keeps nothing open."""


@dataclass(slots=True)
class Doings:
    """What is done in one session at this moment."""

    calls: int = 0
    turns: int = 0
    """Requests that open or close it: the one at work, and those that wait."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    call_ended: asyncio.Event | None = None
    """Made by the one who waits for it."""


class Turns:
    """The sessions of one server in which something is being done."""

    def __init__(self) -> None:
        self._doings: dict[str, Doings] = {}

    def __len__(self) -> int:
        return len(self._doings)

    def begin(self, session: str) -> Doings:
        """The turn of a call begins: it waits for nobody."""
        doings = self.of(session)
        doings.calls += 1
        return doings

    def end(self, session: str, doings: Doings) -> None:
        """The turn that `begin` gave is over."""
        doings.calls -= 1
        if doings.call_ended is not None:
            doings.call_ended.set()
        self.tidy(session, doings)

    def alone(self, session: str) -> _Alone:
        """The turn of a request that opens or closes the session: after those that came before, and after its calls."""
        return _Alone(self, session)

    def of(self, session: str) -> Doings:
        """What is done in a session."""
        doings = self._doings.get(session)
        if doings is None:
            doings = self._doings[session] = Doings()
        return doings

    def tidy(self, session: str, doings: Doings) -> None:
        """Forget what was done, if nothing is being done any more."""
        if not doings.calls and not doings.turns:
            del self._doings[session]


class _Alone:
    """The turn of one request, as a block."""

    __slots__ = ("_doings", "_session", "_turns")

    def __init__(self, turns: Turns, session: str) -> None:
        self._turns = turns
        self._session = session
        self._doings = turns.of(session)

    async def __aenter__(self) -> None:
        doings = self._doings
        doings.turns += 1
        try:
            await doings.lock.acquire()
        except BaseException:
            self._leave()
            raise
        try:
            if doings.calls:
                await _until_calls_end(doings)
        except BaseException:
            await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._doings.lock.release()
        self._leave()

    def _leave(self) -> None:
        self._doings.turns -= 1
        self._turns.tidy(self._session, self._doings)


async def _until_calls_end(doings: Doings) -> None:
    doings.call_ended = asyncio.Event()
    try:
        async with asyncio.timeout(CALLS_END_WITHIN_S):
            while doings.calls:
                doings.call_ended.clear()
                await doings.call_ended.wait()
    except TimeoutError:
        return  # a call that hangs must not keep the session open
