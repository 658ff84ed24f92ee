import asyncio
import os
from typing import cast

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.verify.off_loop import OffLoopFunction, off_loop


@off_loop(timeout_s=60)
def where(*, extra: int) -> tuple[int, int]:
    """Return the process id."""
    return os.getpid(), extra


@off_loop(timeout_s=0.2)
def forever() -> None:
    while True:
        pass


async def test_a_decorated_function_runs_in_a_worker_and_takes_keywords() -> None:
    pid, extra = await where(extra=7)
    assert pid != os.getpid()
    assert extra == 7


def test_the_undecorated_function_stays_available() -> None:
    assert where.off_loop_function(extra=1) == (os.getpid(), 1)
    assert (where.__doc__, cast(object, where).__class__) == ("Return the process id.", OffLoopFunction)


async def test_the_event_loop_is_not_blocked_until_the_deadline() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.02)
            ticks += 1

    ticking = asyncio.create_task(tick())
    with pytest.raises(VerifierError, match="forever ran over its deadline"):
        await forever()
    ticking.cancel()
    assert ticks >= 3


def test_an_asynchronous_function_is_refused() -> None:
    async def verify() -> None: ...

    with pytest.raises(TypeError, match="verify is asynchronous"):
        off_loop(timeout_s=1)(verify)
