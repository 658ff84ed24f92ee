"""A simulated run as data: its size, its pace and its faults, all drawn from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from simulation import faults
from simulation.faults import (
    HARMS_OF,
    Blow,
    CallFault,
    CollectorFault,
    Fault,
    Harm,
    Place,
)

_CALLS_OF_A_ROLLOUT: dict[Place, float] = {
    faults.RUN: 1.0,
    faults.SEED: 1.0,
    faults.VERIFY: 1.0,
    faults.CLOSE: 1.0,
    faults.ASK: 2.5,
    faults.GENERATE: 2.5,
    faults.TOOL: 1.5,
}
"""How often a rollout calls each route, about."""
_SECONDS: dict[Harm, tuple[float, ...]] = {
    Harm.SLOW: (0.5, 3.0, 15.0, 90.0),
    Harm.RESET_DURING: (0.001, 0.05, 0.5),
    Harm.HTTP_429: (0.5, 2.0),
    Harm.CRASH: (0.2, 1.0, 4.0, 15.0, 100.0),
}
_FILES = ("", "", "out.jsonl", "out_failures.jsonl", "out_run.json", "out_run.json")
"""Where the collector's process dies; the manifest is written seldom, and must be hit all the same."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a simulated run is made from."""

    seed: int
    tasks: int
    repeats: int
    in_parallel: int
    max_attempts: int
    rollout_timeout_s: float
    replicas: int
    """Of the environment."""
    engine_s: float
    """What an answer of the engine takes, about."""
    ending: str
    """Of the output's name: it says how its files are compressed, if at all."""
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        return (
            f"{self.planned} rollouts ({self.tasks} tasks), {self.in_parallel} at once, up to {self.max_attempts} "
            f"attempts of {self.rollout_timeout_s:g} s, {self.replicas} x environment, engine {self.engine_s:g} s, "
            f"*{self.ending}"
        )

    @property
    def planned(self) -> int:
        """Rollouts of the run."""
        return self.tasks * self.repeats

    def rng(self, purpose: str) -> Random:
        """A generator for one purpose, the same in every replay."""
        return Random(f"{self.seed}/{purpose}")

    def keeping(self, numbers: Sequence[int]) -> Scenario:
        """The same run with only the faults of these numbers, from 0."""
        return replace(self, faults=tuple(self.faults[number] for number in numbers))


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = Random(f"{seed}/scenario")
    tasks, repeats = rng.randint(2, 5), rng.choice((1, 2, 2, 3))
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
        faults=tuple(_draw_fault(rng, tasks * repeats) for _ in range(rng.choice((0, 1, 2, 3, 4, 5, 6, 8)))),
    )


def _draw_fault(rng: Random, rollouts: int) -> Fault:
    if rng.random() < 0.22:
        return _draw_collector_fault(rng, rollouts)
    if rng.random() < 0.06:
        place, nth = rng.choice((faults.PREFLIGHT, faults.DISCOVER, faults.MEASURE)), 1
    else:
        place = rng.choice(list(_CALLS_OF_A_ROLLOUT))
        nth = rng.randint(1, max(1, round(rollouts * _CALLS_OF_A_ROLLOUT[place])))
    harm = rng.choice(HARMS_OF[place])
    return CallFault(place, nth, harm, rng.choice(_SECONDS.get(harm, (0.0,))))


def _draw_collector_fault(rng: Random, rollouts: int) -> CollectorFault:
    blow = rng.choice(
        (Blow.DIES_WRITING, Blow.DIES_WRITING, Blow.DIES_WRITING, Blow.KILLED, Blow.INTERRUPTED)
    )
    if blow is Blow.DIES_WRITING:
        file = rng.choice(_FILES)
        operations = 14 + 3 * rollouts if not file else 8
        return CollectorFault(blow, rng.randint(1, operations), round(rng.random(), 2), file)
    return CollectorFault(blow, round(rng.expovariate(0.1), 2), round(rng.random(), 2))
