"""Control of one run: requests become effects on its collector, and lines of its events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from nemo_gym.rollouts.control.events import EventLog
from nemo_gym.rollouts.control.verbs import (
    ControlRequest,
    ControlState,
    ControlVerb,
    Effects,
    Phase,
    Tuning,
    decide,
    write_rollout,
)
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rows.identity import RolloutId


class Controllable(Protocol):
    """The collector of a run."""

    @property
    def tuning(self) -> Tuning: ...

    def tune(self, tuning: Tuning) -> None:
        """Change the values for all attempts that start from now on."""

    def pause(self) -> None:
        """Start nothing until `resume`."""

    def resume(self) -> None: ...

    def list_in_flight(self) -> dict[RolloutId, float]:
        """Return the seconds of each attempt in flight."""

    def list_failed(self) -> dict[RolloutId, str]:
        """Return the class of each final failure."""

    def cancel(self, rollouts: Collection[RolloutId]) -> None:
        """End the attempts at `rollouts`, which have failed then."""

    def requeue(self, plan: Sequence[PlannedAttempt]) -> None:
        """Attempt rollouts of `plan` that have failed again, before those that are left."""


class RunControl:
    """Controls a run between `begin` and `end`. One request is carried out at a time."""

    def __init__(
        self,
        name: str,
        collector: Controllable,
        *,
        plan: Iterable[PlannedAttempt] = (),
        drain: Callable[[], None],
        is_draining: Callable[[], bool],
        count: Callable[[], Mapping[str, Any]],
        requeue_refusal: str | None = None,
        log: EventLog | None = None,
        on_phase: Callable[[Phase], Awaitable[None]] | None = None,
    ) -> None:
        """`plan` can be iterated again, unless `requeue_refusal` says why nothing is requeued. `drain` lets the run
        end; `is_draining` tells whether it does, for whatever reason.

        `count` returns the counts of a status. `on_phase` is awaited after a pause begins and after it ends.
        """
        self.name = name
        self._collector = collector
        self._plan = plan
        self._drain = drain
        self._is_draining = is_draining
        self._count = count
        self._requeue_refusal = requeue_refusal
        self._log = log or EventLog(None)
        self._on_phase = on_phase
        self._phase = Phase.RUNNING
        self._one_at_a_time = asyncio.Lock()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The accepted requests of this start."""
        return self._log.events

    def end(self) -> None:
        """Refuse all further requests."""
        self._phase = Phase.ENDED
        self._log.close()

    def read_state(self) -> ControlState:
        """Return the state on which the effects of requests depend."""
        collector = self._collector
        if self._phase is not Phase.ENDED and self._is_draining():
            self._phase = Phase.DRAINING
        return ControlState(
            self._phase,
            collector.tuning,
            collector.list_in_flight(),
            collector.list_failed(),
            self._requeue_refusal,
        )

    async def handle(self, verb: ControlVerb, request: ControlRequest) -> dict[str, Any]:
        """Carry out a request, unless it is a dry run, and return its changes and the state after it.

        Raises `InputError` for a request that is refused, and `ConfigError` if its event cannot be written.
        """
        async with self._one_at_a_time:
            effects = decide(self.read_state(), verb, request)
            if request.dry_run or not effects.changes:
                return self._answer(verb, request, effects)
            planned: Sequence[PlannedAttempt] = ()
            if effects.requeued:
                planned = await asyncio.to_thread(self._find_planned, effects.requeued)
            effects = decide(self.read_state(), verb, request)  # it may have changed meanwhile
            self._log.add(verb, effects, request.by)
            await self._apply(effects, planned)
        return self._answer(verb, request, effects)

    def _answer(self, verb: ControlVerb, request: ControlRequest, effects: Effects) -> dict[str, Any]:
        return {"verb": verb, "dry_run": request.dry_run, "changes": effects.changes} | self.describe()

    def describe(self) -> dict[str, Any]:
        """Return the state of the run as plain data."""
        state = self.read_state()
        longest = sorted(state.in_flight.items(), key=lambda each: (-each[1], each[0]))
        return {
            "run": self.name,
            "phase": state.phase,
            **asdict(state.tuning),
            "counts": dict(self._count()),
            "in_flight": {write_rollout(identity): round(seconds, 1) for identity, seconds in longest},
            "failed": state.count_failed(),
        }

    async def set_phase(self, phase: Phase) -> None:
        """Begin or end a pause, or drain."""
        before, self._phase = self._phase, phase
        match phase:
            case Phase.PAUSED:
                self._collector.pause()
            case Phase.DRAINING:
                self._drain()
                self._collector.resume()
            case Phase.RUNNING:
                self._collector.resume()
        if self._on_phase is not None and Phase.PAUSED in (before, phase):
            await self._on_phase(phase)

    async def _apply(self, effects: Effects, planned: Sequence[PlannedAttempt]) -> None:
        collector = self._collector
        if effects.tuning != collector.tuning:
            collector.tune(effects.tuning)
        if effects.cancelled:
            collector.cancel(effects.cancelled)
        if planned:
            collector.requeue(planned)
        if effects.phase is not self._phase:
            await self.set_phase(effects.phase)

    def _find_planned(self, rollouts: Collection[RolloutId]) -> list[PlannedAttempt]:
        """Return the first attempts at `rollouts`. The plan is read again: it is not held in memory."""
        wanted = set(rollouts)
        found: list[PlannedAttempt] = []
        for planned in self._plan:
            if planned.identity in wanted:
                found.append(planned)
                if len(found) == len(wanted):
                    break
        return found
