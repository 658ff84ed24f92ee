"""Tool calls share a session's lock; opening and closing hold it alone."""

from __future__ import annotations

import asyncio

import pytest

from nemo_gym.serving import _session_locks
from nemo_gym.serving._session_locks import SessionLocks


async def exclusive(locks: SessionLocks, log: list[str], name: str) -> None:
    async with locks.exclusive("s"):
        log.append(f"{name} begins")
        await asyncio.sleep(0)
        log.append(f"{name} ends")


async def test_an_exclusive_holder_waits_for_calls_and_for_earlier_holders() -> None:
    locks, log = SessionLocks(), list[str]()
    with locks.hold_shared("s"), locks.hold_shared("s"):
        tasks = [asyncio.create_task(exclusive(locks, log, name)) for name in ("first", "second")]
        for _ in range(5):
            await asyncio.sleep(0)
        assert log == []
    await asyncio.gather(*tasks)
    assert log == ["first begins", "first ends", "second begins", "second ends"]


async def test_sessions_do_not_wait_for_one_another() -> None:
    locks, log = SessionLocks(), list[str]()
    with locks.hold_shared("another"):
        await exclusive(locks, log, "s")
    assert log == ["s begins", "s ends"]


async def test_a_call_that_hangs_does_not_keep_the_session_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_session_locks, "CALLS_END_WITHIN_S", 0.01)
    locks, log = SessionLocks(), list[str]()
    with locks.hold_shared("s"):
        await exclusive(locks, log, "closing")
    assert log == ["closing begins", "closing ends"]


async def test_a_lock_that_is_not_held_is_forgotten() -> None:
    locks, log = SessionLocks(), list[str]()
    with locks.hold_shared("s"):
        waiting = asyncio.create_task(exclusive(locks, log, "closing"))
        await asyncio.sleep(0)
        assert len(locks) == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert (len(locks), log) == (0, [])
