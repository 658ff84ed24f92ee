"""An operator who controls a simulated run: random requests at random times, in all of its starts.

The operator is in the collector's process, as the endpoint of a run is. Requests that come between two starts reach
nobody. A run that stays paused is resumed after a while, as a person would do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_gym.failures import InputError
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.rollouts.control.verbs import ControlRequest, ControlVerb, Phase
from simulation.events import Kind
from simulation.monitor import Monitor
from simulation.scenario import Scenario

_RESUMED_AFTER_S = 60.0
_MEAN_S = 6.0
"""Mean seconds between two requests."""
_WEIGHTS = {
    ControlVerb.PAUSE: 4,
    ControlVerb.RESUME: 4,
    ControlVerb.DRAIN: 1,
    ControlVerb.CANCEL: 4,
    ControlVerb.REQUEUE: 3,
    ControlVerb.SET: 4,
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request at a time, in virtual seconds."""

    at: float
    verb: ControlVerb
    body: Mapping[str, Any] = field(default_factory=dict)


def add_requests(scenario: Scenario) -> Scenario:
    """Return the scenario with the requests of its seed."""
    rng, now = scenario.rng("control"), 0.0
    requests: list[Request] = []
    for _ in range(rng.randint(1, 12)):
        now += rng.expovariate(1.0 / _MEAN_S)
        verb = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        body: dict[str, Any] = {"dry_run": rng.random() < 0.1}
        if verb is ControlVerb.CANCEL:
            body["rollouts"] = [str(rng.randrange(scenario.tasks))]
        elif verb is ControlVerb.SET:
            body["num_samples_in_parallel"] = rng.randint(1, 8)
            if rng.random() < 0.3:
                body["max_attempts"] = rng.randint(1, 4)
        requests.append(Request(round(now, 2), verb, body))
    return replace(scenario, requests=tuple(requests))


class Operator:
    """Makes the requests of a scenario."""

    def __init__(self, scenario: Scenario, monitor: Monitor) -> None:
        self._left = deque(scenario.requests)
        self._monitor = monitor

    def stop(self) -> None:
        """Make no further requests."""
        self._left.clear()

    @asynccontextmanager
    async def serve(self, control: RunControl, _: Path) -> AsyncIterator[None]:
        """Control a run while the block runs (`nemo_gym.rollouts.run.control.ServeControl`)."""
        driving = asyncio.create_task(self._drive(control), name="operator")
        try:
            yield
        finally:
            driving.cancel()
            await asyncio.wait([driving])

    async def _drive(self, control: RunControl) -> None:
        now = asyncio.get_running_loop().time
        while self._left:
            await asyncio.sleep(max(0.0, self._left[0].at - now()))
            request = self._left.popleft()
            await self._ask(control, request.verb, request.body)
        while True:
            await asyncio.sleep(_RESUMED_AFTER_S)
            if control.read_state().phase is Phase.PAUSED:
                await self._ask(control, ControlVerb.RESUME, {})

    async def _ask(self, control: RunControl, verb: ControlVerb, body: Mapping[str, Any]) -> None:
        try:
            told = await control.handle(verb, ControlRequest(**body))
            answer = "; ".join(told["changes"])
        except InputError as refused:
            answer = refused.failure.code
        self._monitor.record(Kind.CONTROLLED, "collector", detail=f"{verb} {dict(body)}: {answer}")
