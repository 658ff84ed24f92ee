"""A simulated run as data: its size, its timing and its faults, all drawn from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from simulation import faults
from simulation.faults import (
    FAULT_KINDS_OF,
    CallFault,
    CollectorFault,
    CollectorFaultKind,
    CrashAtCall,
    Fault,
    FaultKind,
    Partition,
    Place,
)

if TYPE_CHECKING:
    from simulation.control import Request

_CALLS_OF_A_ROLLOUT: dict[Place, float] = {
    faults.RUN: 1.0,
    faults.SEED: 1.0,
    faults.VERIFY: 1.0,
    faults.CLOSE: 1.0,
    faults.ASK: 2.5,
    faults.GENERATE: 2.5,
    faults.TOOL: 1.5,
}
"""Approximate number of calls per rollout, by route."""
_SECONDS: dict[FaultKind, tuple[float, ...]] = {
    FaultKind.SLOW: (0.5, 3.0, 15.0, 90.0),
    FaultKind.RESET_DURING: (0.001, 0.05, 0.5),
    FaultKind.HTTP_429: (0.5, 2.0),
    FaultKind.CRASH: (0.2, 1.0, 4.0, 15.0, 100.0),
}
_NAMED_SHARE = 0.4
_NODES_SHARE = 0.15
_DURABLE_SHARE = 0.35
_CUT_OFF_S = (3.0, 10.0, 14.0, 20.0, 40.0)
"""Seconds of a partition: shorter than a lease, between a lease and the loss, and longer."""
_FILES = ("", "", "out.jsonl", "out_failures.jsonl", "out_run.json", "out_run.json")
"""Files on which the collector dies. The manifest is written rarely, so it appears twice."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of a simulated run."""

    seed: int
    tasks: int
    repeats: int
    in_parallel: int
    max_attempts: int
    rollout_timeout_s: float
    replicas: int
    """Number of replicas of the environment."""
    engine_s: float
    """Mean seconds of an engine answer."""
    ending: str
    """The extension of the output file, which selects its compression."""
    names_sessions: bool
    """Whether the agent opens and closes sessions by names of its own, as the ecosystem's environment servers do."""
    is_durable: bool
    """Whether attempts are recorded, and continue where they were interrupted (`simulation.durability`)."""
    has_nodes: bool
    """Whether servers are on a machine of their own (`simulation.nodes`)."""
    faults: tuple[Fault, ...]
    requests: tuple[Request, ...] = ()
    """The requests of an operator, in order (`simulation.control`)."""

    def __str__(self) -> str:
        return (
            f"{self.planned} rollouts ({self.tasks} tasks), {self.in_parallel} at once, up to {self.max_attempts} "
            f"attempts of {self.rollout_timeout_s:g} s, {self.replicas} x environment, engine {self.engine_s:g} s, "
            f"*{self.ending}{', named sessions' if self.names_sessions else ''}"
            f"{', durable' if self.is_durable else ''}{', a node' if self.has_nodes else ''}"
        )

    @property
    def planned(self) -> int:
        """The number of planned rollouts."""
        return self.tasks * self.repeats

    def rng(self, purpose: str) -> Random:
        """Return a generator for one purpose. It is the same in every replay."""
        return Random(f"{self.seed}/{purpose}")

    def keeping(self, numbers: Sequence[int]) -> Scenario:
        """Return the same run with only the faults at these indices."""
        return replace(self, faults=tuple(self.faults[number] for number in numbers))


def draw(seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    rng, of_nodes = Random(f"{seed}/scenario"), Random(f"{seed}/nodes")
    partitions = (_draw_partition(of_nodes),) if of_nodes.random() < _NODES_SHARE else ()
    tasks, repeats = rng.randint(2, 5), rng.choice((1, 2, 2, 3))
    durable = Random(f"{seed}/durable")
    is_durable = durable.random() < _DURABLE_SHARE
    crashes = [
        _draw_crash(durable, tasks * repeats) for _ in range(durable.randint(1, 3) if is_durable else 0)
    ]
    return Scenario(
        seed=seed,
        tasks=tasks,
        repeats=repeats,
        in_parallel=rng.randint(1, 6),
        max_attempts=rng.choice((1, 2, 3, 3)),
        rollout_timeout_s=rng.choice((45.0, 60.0, 90.0)),
        replicas=rng.choice((1, 1, 2)),
        engine_s=rng.choice((0.05, 0.5, 2.0)),
        ending=rng.choice((".jsonl", ".jsonl", ".jsonl", ".jsonl.gz", ".jsonl.zst")),
        names_sessions=Random(f"{seed}/names_sessions").random() < _NAMED_SHARE,
        is_durable=is_durable,
        has_nodes=bool(partitions),
        faults=(
            *(_draw_fault(rng, tasks * repeats) for _ in range(rng.choice((0, 1, 2, 3, 4, 5, 6, 8)))),
            *partitions,
            *crashes,
        ),
    )


def _draw_crash(rng: Random, rollouts: int) -> CrashAtCall:
    server = rng.choice((faults.COLLECTOR, faults.AGENT, faults.MODEL, faults.ENVIRONMENT))
    nth = rng.randint(1, max(1, round(rollouts * _CALLS_OF_A_ROLLOUT[faults.GENERATE])))
    return CrashAtCall(server, nth, rng.choice(_SECONDS[FaultKind.CRASH]))


def _draw_partition(rng: Random) -> Partition:
    return Partition(round(rng.expovariate(0.1), 2), rng.choice(_CUT_OFF_S))


def _draw_fault(rng: Random, rollouts: int) -> Fault:
    if rng.random() < 0.22:
        return _draw_collector_fault(rng, rollouts)
    if rng.random() < 0.06:
        place, nth = rng.choice((faults.PREFLIGHT, faults.DISCOVER, faults.MEASURE)), 1
    else:
        place = rng.choice(list(_CALLS_OF_A_ROLLOUT))
        nth = rng.randint(1, max(1, round(rollouts * _CALLS_OF_A_ROLLOUT[place])))
    kind = rng.choice(FAULT_KINDS_OF[place])
    return CallFault(place, nth, kind, rng.choice(_SECONDS.get(kind, (0.0,))))


def _draw_collector_fault(rng: Random, rollouts: int) -> CollectorFault:
    kind = rng.choice(
        (
            CollectorFaultKind.DIES_WRITING,
            CollectorFaultKind.DIES_WRITING,
            CollectorFaultKind.DIES_WRITING,
            CollectorFaultKind.KILLED,
            CollectorFaultKind.INTERRUPTED,
        )
    )
    if kind is CollectorFaultKind.DIES_WRITING:
        file = rng.choice(_FILES)
        operations = 14 + 3 * rollouts if not file else 8
        return CollectorFault(kind, rng.randint(1, operations), round(rng.random(), 2), file)
    return CollectorFault(kind, round(rng.expovariate(0.1), 2), round(rng.random(), 2))
