"""The bounded window: at most so many rollouts at once, each to its row or its failure, until the plan is empty.

One bad rollout never ends a run. Each worker draws the next planned rollout when it has finished its last, so that
what is in memory is what is in flight. How an attempt is made is the business of the `Attempter`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from nemo_gym import clock as sources
from nemo_gym.failures import Boundary, Failure, GymError
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run._window import Window, window_of
from nemo_gym.rollouts.run.answer import AttemptResult, Failed, Scored, classify
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.stopping import Stop, StopReason, StopRules, first_of

log = logging.getLogger(__name__)


class Attempter(Protocol):
    """Makes one attempt: the agent's answer, or why there is none."""

    async def attempt(self, task: PlannedAttempt) -> AttemptResult: ...


class ResultSink(Protocol):
    """Keeps what attempts come to. Both methods return once the line outlives this process."""

    def add_row(self, line: bytes) -> None: ...

    def add_failure(self, line: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The bounds of a run."""

    in_parallel: int | Literal["auto"] = 64
    """Rollouts in flight; `auto` finds out how many (`nemo_gym.rollouts.run._window`)."""
    max_attempts: int = 3
    """Attempts at a rollout within this start of the run."""
    rollout_timeout_s: float | None = 1800.0
    """Seconds an attempt may take; None for no bound."""
    drain_s: float = 5.0
    """Seconds that rollouts in flight are given when the run is to end."""
    first_wait_s: float = 2.0
    longest_wait_s: float = 30.0
    """Bounds of the wait before another attempt: it doubles, with full jitter."""


class Collector:
    """Works a plan off."""

    def __init__(
        self,
        attempter: Attempter,
        output: ResultSink,
        counters: RunCounters,
        *,
        limits: RunLimits | None = None,
        rules: StopRules | None = None,
        stop: Stop | None = None,
        on_settled: Callable[[PlannedAttempt, Scored | Failed], None] | None = None,
        pace: Callable[[], Awaitable[None]] | None = None,
        window: Window | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        """`on_settled` is called with each rollout that is over, and `pace` is awaited before each is begun. `window`
        bounds how many are in flight; by default `limits` do."""
        self._attempter = attempter
        self._output = output
        self._counters = counters
        self._limits = limits or RunLimits()
        self._rules = rules or StopRules(counters.planned)
        self._stop = stop or Stop()
        self._on_settled = on_settled or _ignore
        self._pace = pace or _at_once
        self._sleep = sleep
        self._rng = rng or sources.rng()
        self._window = window or window_of(self._limits.in_parallel, counters.planned)
        self._workers: set[asyncio.Task[None]] = set()
        self._at_work = 0
        """Workers that have not decided to end."""
        self._broken: list[BaseException] = []
        self._source: Iterator[PlannedAttempt] = iter(())
        self._may_spawn = False
        self._clock: Callable[[], float]
        """The event loop's, kept because to ask for the loop is a system call."""

    async def run(self, plan: Iterable[PlannedAttempt]) -> None:
        """Returns when every planned rollout is settled, or the run was stopped and nothing is in flight.

        Raises what made it impossible to go on (the disk is full, a dataset vanished), after draining.
        """
        self._source, self._may_spawn = iter(plan), True
        self._clock = asyncio.get_running_loop().time
        self._spawn()
        work = asyncio.create_task(self._until_all_have_ended())
        try:
            await first_of(work, self._stop.draining)
            if not work.done():
                await first_of(work, self._stop.cancelling, timeout=self._limits.drain_s)
        finally:
            self._may_spawn = False
            for worker in self._workers:
                worker.cancel()
            await work
        if self._broken:
            raise self._broken[0]

    def _spawn(self) -> None:
        """As many workers as the window has room for; each ends when the plan is empty, or the window narrower."""
        while self._may_spawn and self._at_work < self._window.size:
            self._at_work += 1
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._note_exit)

    def _note_exit(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self._broken.append(error)

    async def _until_all_have_ended(self) -> None:
        while self._workers:
            await asyncio.wait(self._workers)

    async def _work(self) -> None:
        try:
            while await self._may_begin() and (planned := self._draw()) is not None:
                self._counters.in_flight += 1
                try:
                    await self._roll_out(planned)
                except asyncio.CancelledError:
                    self._counters.cancelled += 1
                    raise
                finally:
                    self._counters.in_flight -= 1
                self._spawn()
        except GymError as error:
            self._stop.drain(StopReason("broken", error.failure.message, error.failure.remedy))
            raise
        except Exception as error:
            self._stop.drain(StopReason("broken", f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._at_work -= 1

    async def _may_begin(self) -> bool:
        if not self._stop.requested:
            await self._pace()
        return not self._stop.requested and self._at_work <= self._window.size

    def _draw(self) -> PlannedAttempt | None:
        planned = next(self._source, None)
        if planned is None:
            self._may_spawn = False
        return planned

    async def _roll_out(self, planned: PlannedAttempt) -> None:
        """Attempt until there is a score or no further attempt is due."""
        while True:
            began = self._clock()
            result = await self._attempt(planned)
            if isinstance(result, Scored):
                self._window.note_scored(self._clock() - began)
                self._keep(planned, result)
                return
            self._window.note_failed(result.failure)
            if not result.persist:
                self._counters.discarded += 1
                return
            due = result.may_succeed_next_time and planned.attempt_index + 1 < self._limits.max_attempts
            self._output.add_failure(result.to_line(planned, terminal=not due))
            if not due:
                self._give_up(planned, result)
                return
            await self._sleep(self._wait_after(planned.attempt_index))
            if self._stop.requested:
                self._counters.cancelled += 1
                return
            self._counters.retries += 1
            planned = planned.again()

    async def _attempt(self, planned: PlannedAttempt) -> Scored | Failed:
        limit = asyncio.timeout(self._limits.rollout_timeout_s)
        result: AttemptResult
        try:
            async with limit:
                result = await self._attempter.attempt(planned)
        except GymError as error:
            result = error.failure
        except Exception as error:
            if limit.expired():
                result = self._out_of_time(planned)
            else:
                log.exception("the attempt at %s broke", planned.identity)
                result = Failure(Boundary.AGENT, type(error).__name__, f"{type(error).__name__}: {error}")
        return classify(planned, result)

    def _out_of_time(self, planned: PlannedAttempt) -> Failure:
        return Failure(
            Boundary.DEADLINE,
            "rollout_timeout",
            f"agent `{planned.agent}` did not answer within {self._limits.rollout_timeout_s:g} s",
            remedy="Raise +rollout_timeout_s if rollouts need longer.",
            peer=planned.agent,
        )

    def _keep(self, planned: PlannedAttempt, scored: Scored) -> None:
        self._output.add_row(scored.line)
        self._counters.note_scored(scored)
        self._rules.note_success()
        self._on_settled(planned, scored)

    def _give_up(self, planned: PlannedAttempt, failed: Failed) -> None:
        self._counters.note_failed(failed)
        self._on_settled(planned, failed)
        reason = self._rules.note_failure(failed.failure)
        if reason is not None:
            self._stop.drain(reason)

    def _wait_after(self, attempt_index: int) -> float:
        bound = min(self._limits.longest_wait_s, self._limits.first_wait_s * 2.0**attempt_index)
        return self._rng.uniform(0.0, bound)


def _ignore(planned: PlannedAttempt, result: Scored | Failed) -> None:
    """The default of `on_settled`."""


async def _at_once() -> None:
    """Nothing holds the run back."""
