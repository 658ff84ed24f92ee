"""Abandoned sessions, and the state after a session is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nemo_gym.serving.sessions import (
    CLOSING_TAKES_S,
    SESSION_ID_KEY,
    SessionRegistry,
    close_sessions,
    sweep_abandoned,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> SessionRegistry:
    return SessionRegistry(idle_s=100.0, clock=clock)


def test_opening_and_closing_twice_is_once(sessions: SessionRegistry) -> None:
    sessions.open("s")["seen"] = 1
    assert sessions.open("s") == {SESSION_ID_KEY: "s", "seen": 1}
    assert (len(sessions), sessions.close("s"), sessions.close("s"), len(sessions)) == (1, True, False, 0)
    assert sessions.is_closed("s")
    assert sessions.open("s") == {SESSION_ID_KEY: "s"}
    assert not sessions.is_closed("s")


def test_a_session_is_abandoned_when_its_rollout_s_deadline_is_long_past(
    sessions: SessionRegistry, clock: Clock
) -> None:
    sessions.open("s", until=clock.now + 10)
    clock.now += 10 + CLOSING_TAKES_S
    sessions.data("s")
    assert sessions.list_abandoned() == []
    clock.now += 1
    assert sessions.list_abandoned() == ["s"]


def test_a_long_rollout_may_leave_its_session_alone_for_as_long_as_it_has(
    sessions: SessionRegistry, clock: Clock
) -> None:
    sessions.open("s", until=clock.now + 10_000)
    clock.now += 9_000
    assert sessions.list_abandoned() == []


def test_without_a_deadline_idle_sessions_expire(sessions: SessionRegistry, clock: Clock) -> None:
    sessions.open("used")
    sessions.open("left")
    clock.now += 90
    sessions.data("used")
    clock.now += 90
    assert sessions.list_abandoned() == ["left"]


async def test_the_sweeper_frees_what_was_abandoned_and_survives_a_hook_that_fails(
    sessions: SessionRegistry, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    freed: list[str] = []

    async def close(session: str) -> None:
        freed.append(session)
        if session == "broken":
            raise RuntimeError("the container is gone")

    for name in ("broken", "fine"):
        sessions.open(name)
    await run_sweeps(2, lambda sleep: sweep_abandoned(sessions, close, sleep=sleep), clock)
    assert freed == ["broken", "fine"]
    assert len(sessions) == 0
    assert "closing session broken failed" in caplog.text
    assert "2 abandoned sessions" in caplog.text


async def run_sweeps(
    count: int, sweep: Callable[[Callable[[float], Awaitable[None]]], Awaitable[None]], clock: Clock
) -> None:
    """Let a sweeper run `count` times, a minute apart."""
    left = count

    async def sleep(seconds: float) -> None:
        nonlocal left
        if left == 0:
            raise asyncio.CancelledError
        left -= 1
        clock.now += 101

    with pytest.raises(asyncio.CancelledError):
        await sweep(sleep)


async def test_only_open_sessions_are_freed(sessions: SessionRegistry) -> None:
    freed: list[str] = []

    async def close(session: str) -> None:
        freed.append(session)

    sessions.open("open")
    sessions.open("closed")
    sessions.close("closed")
    await close_sessions(sessions, ["open", "closed", "unknown"], close)
    assert freed == ["open"]
