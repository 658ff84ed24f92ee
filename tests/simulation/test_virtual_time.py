from __future__ import annotations

import asyncio

import pytest

from simulation.virtual_time import run_virtually

DAY_S = 86_400.0


def test_a_day_is_over_at_once() -> None:
    async def wait() -> float:
        await asyncio.sleep(DAY_S)
        return asyncio.get_running_loop().time()

    assert run_virtually(wait()) == pytest.approx(DAY_S)


def test_timers_fire_in_their_order_and_each_at_its_time() -> None:
    async def note_moments() -> list[tuple[str, float]]:
        loop, moments = asyncio.get_running_loop(), []

        async def record(name: str, after_s: float) -> None:
            await asyncio.sleep(after_s)
            moments.append((name, loop.time()))

        await asyncio.gather(record("late", 3_600.0), record("early", 0.5), record("between", 60.0))
        return moments

    names, moments = zip(*run_virtually(note_moments()), strict=True)
    assert names == ("early", "between", "late")
    assert moments == pytest.approx((0.5, 60.0, 3_600.0))


def test_computing_takes_no_time_and_threads_are_not_used() -> None:
    async def compute() -> float:
        loop = asyncio.get_running_loop()
        assert await asyncio.to_thread(sum, range(1_000)) == 499_500
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)
        return loop.time()

    assert run_virtually(compute()) == 0.0


def test_a_program_that_would_hang_raises() -> None:
    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="would hang forever"):
        run_virtually(hang())
