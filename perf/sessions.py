"""CPU of a rollout in a session, against one of `POST /rollouts`: groups of 8, 1,024 in flight, by turns in one run.

The gym runs as `ng_run` starts it; its CPU is that of all its processes. `head_us` is that of the process with the head
server alone, which has the sessions. Both clients read everything, and the session's consumes groups by steps of 64.
Rollouts are single model calls that the engine stub answers after `latency_s`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psutil
from pydantic import Field

from nemo_gym.cli.command import Keys
from nemo_gym.client import AsyncGym, GymAddress
from nemo_gym.client._connecting import find_address
from nemo_gym.client._group import RolloutGroup
from perf.episodes import EPISODES
from perf.measure import Figures, cpu_s, in_fast_loop, tell
from perf.rollouts import engine_of, overrides
from perf.running_gym import RunningGym, running_gym

GROUP_SIZE = 8
STEP = 64
"""Groups that are consumed together, as by a step of a trainer."""


class BenchKeys(Keys):
    groups: int = Field(512, ge=1, description="Groups of 8 rollouts in each turn.")
    in_flight: int = Field(1024, ge=1, description="Rollouts in flight.")
    latency_s: float = Field(0.2, ge=0, description="Seconds per engine answer.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return the CPU in µs of a rollout in both ways, the medians of `runs` turns, and their ratios by turn."""
    episode = EPISODES["single-step"]
    with engine_of(episode, keys.latency_s) as engine, running_gym(overrides(episode, engine)) as running:
        return in_fast_loop(_take_turns(running, runs, keys))


async def _take_turns(running: RunningGym, runs: int, keys: BenchKeys) -> Figures:
    gym = AsyncGym(find_address(Path(running.folder)))
    rows = [{**EPISODES["single-step"].row, "number": number} for number in range(keys.groups)]
    agent = EPISODES["single-step"].agent
    ways: dict[str, Callable[[], Awaitable[int]]] = {
        "POST /rollouts": lambda: _stream(gym.address, rows, agent, keys),
        "session": lambda: _use_session(gym, rows, agent, keys),
    }
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(runs + 1):
        for name, make_rollouts in ways.items():
            before = _measure(running)
            count = await make_rollouts()
            assert count == keys.groups * GROUP_SIZE, f"{count} rollouts"
            both = tuple(
                1e6 * (now - then) / count for now, then in zip(_measure(running), before, strict=True)
            )
            if turn:  # the first one warms up
                spent[name].append((both[0], both[1]))
        tell(f"turn {turn}")
    figures: Figures = {
        name: {"gym_us": _median(one for one, _ in turns), "head_us": _median(one for _, one in turns)}
        for name, turns in spent.items()
    }
    pairs = list(zip(spent["session"], spent["POST /rollouts"], strict=True))
    figures["ratio"] = {
        "gym": _median(ours[0] / theirs[0] for ours, theirs in pairs),
        "head": _median(ours[1] / theirs[1] for ours, theirs in pairs),
    }
    return figures


def _measure(running: RunningGym) -> tuple[float, float]:
    """Return the CPU seconds of the gym, and of its head."""
    return cpu_s(running.processes()), cpu_s([psutil.Process(running.pids["head_server"])])


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


async def _stream(address: GymAddress, rows: list[dict[str, Any]], agent: str, keys: BenchKeys) -> int:
    gym = AsyncGym(address)
    options = {"num_repeats": GROUP_SIZE, "num_samples_in_parallel": keys.in_flight, "agent_name": agent}
    body = json.dumps({"rows": rows, **options}).encode()
    count = -1  # the last line
    async with gym._session() as session, session.post(address.url + "/rollouts", data=body) as answer:
        async for _ in answer.content:
            count += 1
    return count


async def _use_session(gym: AsyncGym, rows: list[dict[str, Any]], agent: str, keys: BenchKeys) -> int:
    count, step = 0, list[RolloutGroup]()
    async with gym.session(
        group_size=GROUP_SIZE,
        num_samples_in_parallel=keys.in_flight,
        max_unconsumed_groups=2 * keys.in_flight,
        max_waiting_tasks=keys.groups,
        agent_name=agent,
    ) as session:
        await session.submit(rows, ends=True)
        async with aclosing(session.groups()) as groups:
            async for group in groups:
                count += len(group.rollouts)
                step.append(group)
                if len(step) == STEP or count == len(rows) * GROUP_SIZE:
                    await session.consumed(*step)
                    step.clear()
    return count
