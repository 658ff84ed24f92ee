from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run._window import Window
from nemo_gym.rollouts.run.collector import Collector
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.sources import OpenSource
from nemo_gym.rollouts.run.stopping import Stop, StopReason
from nemo_gym.rows.identity import RolloutId
from tests.rollouts.doubles import Agents, MemoryOutput, planned, run_virtually, scored


class Tasks:
    """An open source over a list that grows."""

    def __init__(self) -> None:
        self.left: deque[PlannedAttempt] = deque()
        self.source = OpenSource(
            lambda: self.left.popleft() if self.left else None, lambda: len(self.left), lambda: False
        )

    def add(self, *tasks: int) -> None:
        self.left.extend(planned(task) for task in tasks)
        self.source.wake()


def collector(agents: Any, settled: list[RolloutId], *, size: int = 4, stop: Stop | None = None) -> Collector:
    return Collector(
        agents,
        MemoryOutput(),
        RunCounters(0),
        window=Window(size),
        stop=stop,
        on_settled=lambda each, result: settled.append(each.identity),
    )


def test_no_task_now_is_not_the_end() -> None:
    tasks, settled = Tasks(), list[RolloutId]()
    agents = Agents(seconds=1.0)

    async def main() -> None:
        run = asyncio.create_task(collector(agents, settled).run(tasks.source))
        await asyncio.sleep(10)
        assert not run.done()
        tasks.add(0, 1)
        await asyncio.sleep(10)
        assert len(settled) == 2
        assert not run.done()
        tasks.add(*range(2, 12))
        await asyncio.sleep(0.5)
        tasks.source.end()
        await run

    run_virtually(main())
    assert len(settled) == 12
    assert agents.most_in_flight == 4


def test_a_window_is_not_filled_with_workers_that_have_nothing_to_do() -> None:
    tasks, settled = Tasks(), list[RolloutId]()

    async def main() -> None:
        running = collector(Agents(seconds=1.0), settled, size=1024)
        run = asyncio.create_task(running.run(tasks.source))
        await asyncio.sleep(1)
        tasks.add(0, 1, 2)
        await asyncio.sleep(0.5)
        assert len(running.list_in_flight()) == 3
        assert len(running._workers) == 3
        tasks.source.end()
        await run

    run_virtually(main())


def test_a_stop_ends_an_open_run_that_waits() -> None:
    tasks, stop = Tasks(), Stop()

    async def main() -> None:
        run = asyncio.create_task(collector(Agents(), [], stop=stop).run(tasks.source))
        await asyncio.sleep(1)
        stop.drain(StopReason("drained", "enough"))
        await run

    run_virtually(main())


def test_a_rollout_whose_agent_wants_no_row_is_settled_too() -> None:
    tasks, settled = Tasks(), list[RolloutId]()

    async def unwanted(task: PlannedAttempt) -> Any:
        return scored(task, persist=False)

    async def main() -> None:
        tasks.add(0, 1)
        tasks.source.end()
        await collector(Agents({0: unwanted}), settled).run(tasks.source)

    run_virtually(main())
    assert len(settled) == 2
