"""Waiting for what happens elsewhere and tells nobody. How soon it happens is for benchmarks and `make chaos`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import psutil

PATIENCE_S = 30.0
"""Before something counts as never."""


async def until(is_so: Callable[[], object]) -> None:
    """Return when `is_so()` holds. Raises `TimeoutError`."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 - there is nothing to wait on
            await asyncio.sleep(0.01)


def wait_until(is_so: Callable[[], object]) -> None:
    """As `until`, without an event loop."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > give_up_at:
            raise TimeoutError
        time.sleep(0.01)


async def until_gone(pid: int) -> None:
    """Return when process `pid` has ended. Raises `TimeoutError`."""
    await until(lambda: not is_running(pid))


def wait_until_gone(pid: int) -> None:
    """As `until_gone`, without an event loop."""
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    """Whether there is a process `pid` that has not ended; a zombie has."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
