"""A shared and exclusive lock per session: tool calls share it, opening and closing hold it alone.

So a session's state is never freed during a tool call, even if the agent disconnects in the middle of a call or before
the session is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field

CALLS_END_WITHIN_S = 3.0
"""Seconds that opening and closing wait for the session's calls; a call that hangs does not keep the session open."""


@dataclass(slots=True)
class _SessionLock:
    calls: int = 0
    """Holders of the shared lock."""
    exclusive: int = 0
    """Requests that hold the exclusive lock or wait for it."""
    mutex: asyncio.Lock = field(default_factory=asyncio.Lock)
    call_ended: asyncio.Event | None = None
    """Created by the request that waits for the calls."""


class SessionLocks:
    """The session locks of one server; a lock exists only while a request holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, _SessionLock] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def hold_shared(self, session: str) -> AbstractContextManager[None]:
        """Hold the shared lock, as tool calls do. It never waits."""
        return _SharedHold(self, session)

    @asynccontextmanager
    async def exclusive(self, session: str) -> AsyncIterator[None]:
        """Hold the exclusive lock: wait for earlier exclusive holders and, at most 3 s, for the session's calls."""
        lock = self.get_lock(session)
        lock.exclusive += 1
        try:
            async with lock.mutex:
                if lock.calls:
                    await _wait_until_calls_end(lock)
                yield
        finally:
            lock.exclusive -= 1
            self.remove_if_unused(session, lock)

    def get_lock(self, session: str) -> _SessionLock:
        lock = self._locks.get(session)
        if lock is None:
            lock = self._locks[session] = _SessionLock()
        return lock

    def remove_if_unused(self, session: str, lock: _SessionLock) -> None:
        if not lock.calls and not lock.exclusive:
            del self._locks[session]


class _SharedHold(AbstractContextManager[None]):
    """A holder of the shared lock. A generator as context manager would cost three times as much per tool call."""

    __slots__ = ("_locks", "_session")

    def __init__(self, locks: SessionLocks, session: str) -> None:
        self._locks = locks
        self._session = session

    def __enter__(self) -> None:
        self._locks.get_lock(self._session).calls += 1

    def __exit__(self, *_: object) -> None:
        lock = self._locks.get_lock(self._session)
        lock.calls -= 1
        if lock.call_ended is not None:
            lock.call_ended.set()
        self._locks.remove_if_unused(self._session, lock)


async def _wait_until_calls_end(lock: _SessionLock) -> None:
    lock.call_ended = asyncio.Event()
    try:
        async with asyncio.timeout(CALLS_END_WITHIN_S):
            while lock.calls:
                lock.call_ended.clear()
                await lock.call_ended.wait()
    except TimeoutError:
        return  # proceed: a call that hangs must not keep the session open
