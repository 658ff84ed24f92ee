"""A collection in virtual time whose control tests drive."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from nemo_gym.rollouts.control.events import EventLog
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.rollouts.control.verbs import ControlRequest, ControlVerb, Phase
from nemo_gym.rollouts.run.collector import Collector, RunLimits
from nemo_gym.rollouts.run.control import build_drain, count_rollouts
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.stopping import Stop, StopRules
from tests.rollouts.doubles import Agents, MemoryOutput, planned


class Controlled(NamedTuple):
    """The parts of a collection."""

    collector: Collector
    control: RunControl
    output: MemoryOutput
    counters: RunCounters
    stop: Stop

    async def ask(self, verb: ControlVerb, **body: Any) -> dict[str, Any]:
        return await self.control.handle(verb, ControlRequest(**body))


def build_controlled(
    agents: Agents,
    count: int,
    *,
    limits: RunLimits | None = None,
    rules: StopRules | None = None,
    log: EventLog | None = None,
    on_phase: Callable[[Phase], Coroutine[Any, Any, None]] | None = None,
) -> Controlled:
    output, counters, stop = MemoryOutput(), RunCounters(count), Stop()
    collector = Collector(
        agents, output, counters, rng=random.Random(1), limits=limits or RunLimits(4), rules=rules, stop=stop
    )
    control = RunControl(
        "rollouts",
        collector,
        plan=[planned(task) for task in range(count)],
        drain=build_drain(stop),
        is_draining=lambda: stop.requested,
        count=lambda: count_rollouts(counters),
        log=log,
        on_phase=on_phase,
    )
    return Controlled(collector, control, output, counters, stop)
