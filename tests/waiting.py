"""Polling for events in other tasks or processes. Tests of speed belong in benchmarks and `make chaos`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import psutil

TIMEOUT_S = 120.0
"""Seconds after which a test fails because the event did not happen."""


async def until(condition: Callable[[], object]) -> None:
    """Return when `condition()` is true. Raises `TimeoutError`."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - the event has no signal to wait on
            await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], object]) -> None:
    """`until`, without an event loop."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError
        time.sleep(0.01)


async def until_gone(pid: int) -> None:
    """Return when process `pid` has ended. Raises `TimeoutError`."""
    await until(lambda: not is_running(pid))


def wait_until_gone(pid: int) -> None:
    """`until_gone`, without an event loop."""
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    """Return whether process `pid` exists and has not ended. A zombie has ended."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
