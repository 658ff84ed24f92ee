"""Rollouts per second on 1, 2 and 4 nodes and the gym's CPU for each, beside one machine (`placement=process`).

The nodes are node hosts of this machine, on loopback: the figures show the cost of the placement and not that of a
network, and all nodes share the cores. Each node has a replica of every server, and its attempts in flight wait for an
engine of 2 s. `of_linear` is the rate in relation to that of one node, times the number of nodes. `ready_s` is the time
from the start of `ng_run` until its servers answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import psutil
from pydantic import Field

from nemo_gym.cli.command import Keys
from perf.episodes import EPISODES
from perf.load import ClosedLoop, Windows
from perf.measure import Figures, in_fast_loop, tell
from perf.rollouts import Spent, engine_of, started_gym

EPISODE = EPISODES["tool-calling"]
BLOCKS = (
    f"{EPISODE.environment}.resources_servers.{EPISODE.environment}",
    f"{EPISODE.agent}.responses_api_agents.simple_agent",
    "policy_model.responses_api_models.vllm_model",
)
ONE_MACHINE = "process"
Others: TypeAlias = Mapping[str, Sequence[psutil.Process]]
"""Name of a group → processes, as for a load."""


class BenchKeys(Keys):
    nodes: list[int] = Field([1, 2, 4], description="Numbers of nodes.")
    in_flight: int = Field(256, ge=1, description="Attempts in flight for each node.")
    latency_s: float = Field(2.0, gt=0, description="Seconds per engine answer.")
    seconds: float = Field(5.0, gt=0, description="Minimum seconds of a measurement.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return figures by number of nodes, each the median of `runs` windows of a steady load."""
    figures = {ONE_MACHINE: measured(runs, keys, 1)}
    for number in keys.nodes:
        hosts = ",".join(f"node{each}" for each in range(1, number + 1))
        placed = [
            *("+placement=hosts", f"+hosts=[{hosts}]", '+host_command="env NODE={host}"'),
            *("+advertised_host=127.0.0.1", "++head_server.host=127.0.0.1"),
            *replicas(number),
        ]
        figures[name_of(number)] = measured(runs, keys, number, *placed)
    compare(figures, keys.nodes)
    return figures


def replicas(nodes: int) -> list[str]:
    """The overrides that give every node a replica of every server."""
    return [f"++{block}.num_workers={nodes}" for block in BLOCKS]


def compare(figures: dict[str, Figures], nodes: Sequence[int]) -> None:
    """Add the relations to the fewest nodes, and to one machine."""
    fewest = min(nodes)
    base = figures[name_of(fewest)]["rollouts_per_s"] / fewest
    for number in nodes:
        cell = figures[name_of(number)]
        cell["of_linear"] = cell["rollouts_per_s"] / (number * base)
        if of_one := figures[ONE_MACHINE][
            "gym_cpu_ms"
        ]:  # a short window may take less than a tick of the clock
            cell["of_the_cpu_of_one_machine"] = cell["gym_cpu_ms"] / of_one


def name_of(nodes: int) -> str:
    return f"{nodes} node{'s' if nodes > 1 else ''}"


def measured(
    runs: int, keys: BenchKeys, nodes: int, *placed: str, others: Callable[[], Others] = dict
) -> Figures:
    """Return the figures of a gym that is placed by overrides. `others` are processes that are not the command's."""
    tell(f"{name_of(nodes)}, {placed[0].lstrip('+')}" if placed else "one machine")

    async def measure() -> Figures:
        began = time.monotonic()
        async with started_gym(EPISODE, engine, *placed) as (send, groups):
            ready_s = time.monotonic() - began
            found = others()
            joined = {name: [*groups.get(name, ()), *found.get(name, ())] for name in {*groups, *found}}
            load = ClosedLoop(send, nodes * keys.in_flight, spread_s=EPISODE.model_calls * keys.latency_s)
            measured = await load.measured(joined, Windows(runs, keys.seconds))
        spent = Spent(measured.windows)
        return {
            "rollouts_per_s": spent.rate(),
            "gym_cpu_ms": spent.cpu_ms("gym"),
            **{f"{name}_cpu_ms": spent.cpu_ms(name) for name in found if name not in groups},
            "cores_busy": spent.cores("gym", "engine", "client"),
            "p99_s": spent.latency_s(0.99),
            "failed": sum(window.failed for window in measured.windows),
            "ready_s": ready_s,
        }

    with engine_of(EPISODE, keys.latency_s) as engine:
        return in_fast_loop(measure())
