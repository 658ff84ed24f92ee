from __future__ import annotations

import asyncio

import pytest

from simulation.events import AttemptId
from simulation.processes import (
    Process,
    ProcessEnded,
    attempt_at_work,
    owned_task_factory,
    require_alive,
)
from simulation.virtual_time import run_virtually

ATTEMPT = AttemptId(0, 1, 2, 0)


def test_what_a_process_started_by_whatever_way_ends_with_it() -> None:
    async def live_and_die() -> tuple[int, int]:
        asyncio.get_running_loop().set_task_factory(owned_task_factory)
        process, seen = Process("agent"), []

        async def child() -> None:
            seen.append(attempt_at_work())
            await asyncio.sleep(3_600.0)

        async def parent() -> None:
            async with asyncio.TaskGroup() as children:
                children.create_task(child())
                children.create_task(child())

        process.spawn(parent(), "parent", ATTEMPT)
        await asyncio.sleep(1.0)
        assert seen == [ATTEMPT, ATTEMPT]
        alive = len(process.tasks)
        process.kill()
        await process.ended()
        assert asyncio.get_running_loop().time() == pytest.approx(1.0)
        return alive, len(process.tasks)

    assert run_virtually(live_and_die()) == (3, 0)


def test_a_dead_process_can_not_act_while_it_unwinds() -> None:
    async def live_and_die() -> list[str]:
        asyncio.get_running_loop().set_task_factory(owned_task_factory)
        process, refused = Process("agent"), []

        async def work() -> None:
            require_alive()
            try:
                await asyncio.sleep(3_600.0)
            finally:
                with pytest.raises(ProcessEnded) as error:
                    require_alive()
                refused.append(str(error.value))

        process.spawn(work(), "work")
        await asyncio.sleep(1.0)
        process.kill()
        await process.ended()
        require_alive()  # we are no process of the simulation
        return refused

    assert run_virtually(live_and_die()) == ["agent is dead"]


def test_tasks_that_swallow_cancellation_end_too() -> None:
    async def live_and_die() -> float:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(owned_task_factory)
        process = Process("agent")

        async def cling() -> None:
            for _ in range(3):
                try:
                    await asyncio.sleep(3_600.0)
                except asyncio.CancelledError:
                    continue

        process.spawn(cling(), "cling")
        await asyncio.sleep(1.0)
        process.kill()
        await process.ended()
        return loop.time()

    assert run_virtually(live_and_die()) < 10.0
