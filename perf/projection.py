"""A projection of the rate on machines with more cores, from the CPU of each process in kept results.

It is no measurement. A rollout's CPU is assumed to be the same on every core, and the work of a server to spread over
as many processes (`num_workers`) as it needs. The collector is one process and has one core at most, so its CPU limits
the rate, too. The first bottleneck is the process that reaches its limit at the lowest rate. The engine is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

CORES = (16, 64)
_LOAD = ("process", "tool-calling", "64 in flight, engine 0 s")
_COLLECTOR = ("over HTTP", "rows_per_cpu_s")
COLLECTOR = "the collector, which is one process"
ALL_CORES = "the cores together"


class Projected(NamedTuple):
    """The projection for a number of cores."""

    cores: int
    workers: str
    rollouts_per_s: float
    bottleneck: str
    cores_of: Mapping[str, float]
    """Cores that each process group keeps busy at this rate."""


def project(
    rollouts: Mapping[str, Any], collector: Mapping[str, Any], cores: Sequence[int] = CORES
) -> list[Projected]:
    """Return the projections with one process a server, and with as many as it needs."""
    load: Any = rollouts
    for name in _LOAD:
        load = load[name]
    servers: dict[str, float] = {name: ms for name, ms in load["cpu_ms_of"].items() if ms}
    whole, key = _COLLECTOR
    collector_ms = 1e3 / collector[whole][key]
    cpu_ms = {**servers, "collector": collector_ms}
    single = {f"{name}, as one process": 1e3 / ms for name, ms in servers.items()}
    return [
        _limited(count, workers, {**limits, COLLECTOR: 1e3 / collector_ms}, cpu_ms)
        for count in cores
        for workers, limits in (("one a server", single), ("as many as needed", {}))
    ]


def _limited(cores: int, workers: str, limits: Mapping[str, float], cpu_ms: Mapping[str, float]) -> Projected:
    every = {**limits, ALL_CORES: 1e3 * cores / sum(cpu_ms.values())}
    bottleneck = min(every, key=lambda name: every[name])
    rate = every[bottleneck]
    return Projected(cores, workers, rate, bottleneck, {name: rate * ms / 1e3 for name, ms in cpu_ms.items()})
