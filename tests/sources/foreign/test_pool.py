"""Hosts are used again, until a failure, their number of attempts, or processes that an attempt left."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from nemo_gym.failures import ForeignError
from nemo_gym.sources.foreign.pool import HostPool
from nemo_gym.sources.foreign.process import HostProcess
from tests.sources.foreign.programs import copy_program, list_processes
from tests.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


async def step(host: HostProcess, text: str) -> None:
    await host.ask("open", {"task": {}, "seed": 0}, deadline_s=120)
    await host.ask("step", {"seat": 0, "text": text, "calls": []}, deadline_s=120)


async def test_a_host_serves_one_attempt_after_the_other(tmp_path: Path) -> None:
    pool = HostPool(copy_program(tmp_path), 2, most_attempts=3)
    used = []
    for _ in range(4):
        host = await pool.acquire()
        await step(host, "finish")
        used.append(host)
        await pool.release(host)
        await pool.release(host)
    assert [each is used[0] for each in used] == [True, True, True, False]
    assert pool.started == 2
    await pool.close()
    await until(lambda: not list(list_processes(tmp_path)))


@pytest.mark.parametrize("text", ["die", "fork"])
async def test_a_host_that_an_attempt_has_spoilt_is_replaced(text: str, tmp_path: Path) -> None:
    pool = HostPool(copy_program(tmp_path), 1)
    first = await pool.acquire()
    try:
        await step(first, text)
    except ForeignError:
        assert text == "die"
    await pool.release(first)
    await until(lambda: not list(list_processes(tmp_path)))
    second = await pool.acquire()
    await step(second, "finish")
    assert second is not first
    await pool.release(second, is_reusable=False)
    await pool.close()
    await until(lambda: not list(list_processes(tmp_path)))


async def test_a_host_that_has_grown_is_replaced(tmp_path: Path) -> None:
    pool = HostPool(copy_program(tmp_path), 1, recycled_mib=1)
    host = await pool.acquire()
    await pool.release(host)
    assert await pool.acquire() is not host
    await pool.close()


async def test_attempts_wait_for_a_host(tmp_path: Path) -> None:
    pool = HostPool(copy_program(tmp_path), 1)
    first = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await step(first, "finish")
    assert not waiting.done()
    await pool.release(first)
    assert await waiting is first
    await pool.close()


async def test_a_start_that_fails_leaves_its_place_to_others(tmp_path: Path) -> None:
    pool = HostPool(copy_program(tmp_path, "unknown"), 1)
    for _ in range(2):
        with pytest.raises(ForeignError, match="no such environment"):
            await pool.acquire()
    await pool.close()
