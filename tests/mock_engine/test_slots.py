"""A limited number of requests runs, a limited number waits, and the rest is refused."""

from __future__ import annotations

import asyncio

import pytest

from nemo_gym.mock_engine._slots import Slots
from tests.mock_engine.wire import running


async def test_an_engine_works_at_so_many_at_once_lets_some_wait_and_refuses_the_rest() -> None:
    async with running(latency_s=0.2, max_num_seqs=2, max_waiting=1) as wire:
        answers = await asyncio.gather(*(wire.chat() for _ in range(4)))
        assert sorted(status for status, _ in answers) == [200, 200, 200, 429]
        assert (await wire.chat())[0] == 200


async def test_a_cancelled_request_leaves_the_queue() -> None:
    slots = Slots(working=1, waiting=1)
    await slots.acquire()
    assert (slots.must_wait, slots.are_full) == (True, False)
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    assert slots.are_full
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not slots.are_full
    slots.release()
    assert not slots.must_wait


async def test_without_limits_every_request_runs() -> None:
    slots = Slots(working=None, waiting=None)
    for _ in range(100):
        await slots.acquire()
    assert not slots.must_wait
    assert not slots.are_full
