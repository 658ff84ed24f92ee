"""The control of a collection: what its start takes over from earlier ones, and its endpoint while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemo_gym.rollouts.control.clocks import Clocks
from nemo_gym.rollouts.control.events import Carried, EventLog, carry_over
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.rollouts.control.verbs import RESUME_LATER, Phase, Tuning
from nemo_gym.rollouts.output.journal import Journal
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.collector import Collector
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.options import RunLimits
from nemo_gym.rollouts.run.stopping import DRAINED, Stop, StopReason
from nemo_gym.rollouts.run.summary import read_counts

ServeControl = Callable[[RunControl, Path], AbstractAsyncContextManager[None]]
"""Lets others reach the control of a run while its block runs, by a file; `serve_control` is one."""
_ONCE = "this run decides by itself which rollouts it makes"


class StartControl:
    """The control of one start of a run."""

    def __init__(
        self, journal: Journal, limits: RunLimits, *, clocks: Clocks, serve: ServeControl | None = None
    ) -> None:
        """`serve` lets others reach it; None if it has no address."""
        self._clocks = clocks
        self._files = journal.files
        self._serve = serve
        self._log = EventLog(journal.files)
        command = Tuning(limits.in_parallel, limits.max_attempts, limits.rollout_timeout_s)
        carried = Carried(Phase.RUNNING, command)
        if journal.resumed:
            carried = carry_over(self._log.read_earlier(), command, journal.previous_start)
        self._phase = carried.phase
        self.notes = carried.notes
        """Sentences on what was taken over."""
        self.limits = tune_limits(limits, carried.tuning)

    @property
    def events(self) -> list[dict[str, object]]:
        """The accepted requests of this start."""
        return self._log.events

    @asynccontextmanager
    async def control(
        self, collector: Collector, plan: Iterable[PlannedAttempt], stop: Stop, counters: RunCounters
    ) -> AsyncIterator[None]:
        """Accept requests while the block runs. A `plan` that can be iterated again is that of requeued rollouts."""
        control = RunControl(
            self._files.stem,
            collector,
            plan=plan,
            requeue_refusal=_ONCE if isinstance(plan, Iterator) else None,
            drain=build_drain(stop),
            is_draining=lambda: stop.requested,
            count=lambda: count_rollouts(counters),
            log=self._log,
            on_phase=self._clocks.set_phase,
        )
        counters.has_control = self._serve is not None
        if self._phase is Phase.PAUSED:
            await control.set_phase(Phase.PAUSED)
        try:
            async with (
                self._serve(control, self._files.control) if self._serve is not None else nullcontext()
            ):
                yield
        finally:
            control.end()
            await self._clocks.set_phase(Phase.ENDED)


def tune_limits(limits: RunLimits, tuning: Tuning) -> RunLimits:
    """Return `limits` with the values of `tuning`."""
    return replace(
        limits,
        in_parallel=tuning.num_samples_in_parallel,
        max_attempts=tuning.max_attempts,
        rollout_timeout_s=tuning.rollout_timeout_s,
    )


def build_drain(stop: Stop) -> Callable[[], None]:
    """Return the request that a run ends with the rollouts in flight."""
    reason = StopReason(
        DRAINED,
        "drained by a request of control; all finished rollouts are on disk",
        RESUME_LATER,
    )
    return lambda: stop.drain(reason)


def count_rollouts(counters: RunCounters) -> dict[str, Any]:
    """Return the counts of a run's state, its outages, and what it has spent, if it counts that."""
    told: dict[str, Any] = {**read_counts(counters), "settled": counters.settled}
    outages = [f"`{server}`: {cause}" for server, each in counters.outages.items() for cause in each.values()]
    if outages:
        told["outages"] = outages
    return told if counters.expenses is None else {**told, "spent": counters.expenses.measure()}
