"""Runs a plan with a bounded number of rollouts in flight, each until it has a row or a final failure.

One failed rollout never ends a run. Each worker takes its next rollout when the previous one is finished, so memory is
bounded by the rollouts in flight. An `Attempter` makes the attempts.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol

from nemo_gym import clock
from nemo_gym.failures import Boundary, Failure, GymError
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run._window import Window, build_window
from nemo_gym.rollouts.run.answer import AttemptResult, Failed, Scored, classify
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.options import RunLimits as RunLimits
from nemo_gym.rollouts.run.stopping import Stop, StopReason, StopRules, wait_for_first
from nemo_gym.transport.deadline import Timer

log = logging.getLogger(__name__)

_NO_LIMIT_S = 1e8
"""Three years, in seconds."""


class Attempter(Protocol):
    """Makes one attempt: returns the agent's answer or a failure."""

    async def attempt(self, task: PlannedAttempt) -> AttemptResult: ...


class ResultSink(Protocol):
    """Stores results. Both methods return when the line would survive the death of this process."""

    def add_row(self, line: bytes) -> None: ...

    def add_failure(self, line: bytes) -> None: ...


class Collector:
    """Runs a plan."""

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
        rng: random.Random | None = None,
    ) -> None:
        """`on_settled` is called with each settled rollout; `pace` is awaited before each rollout starts. `window`
        bounds the rollouts in flight; by default `limits` do."""
        self._attempter = attempter
        self._output = output
        self._counters = counters
        self._limits = limits or RunLimits()
        self._rules = rules or StopRules(counters.planned)
        self._stop = stop or Stop()
        self._on_settled = on_settled
        self._pace = pace
        self._rng = rng or clock.rng()
        self._window = window or build_window(self._limits.in_parallel, counters.planned)
        self._workers: set[asyncio.Task[None]] = set()
        self._active = 0
        """Workers that have not decided to exit."""
        self._broken: list[BaseException] = []
        self._source: Iterator[PlannedAttempt] = iter(())
        self._may_spawn = False
        self._clock: Callable[[], float]
        """The event loop's clock, cached because finding the loop costs a system call."""

    async def run(self, plan: Iterable[PlannedAttempt]) -> None:
        """Return when every planned rollout is settled, or when the run was stopped and nothing is in flight.

        Raises the error that made it impossible to continue (a full disk, a deleted dataset), after draining.
        """
        self._source, self._may_spawn = iter(plan), True
        self._clock = asyncio.get_running_loop().time
        self._spawn()
        work = asyncio.create_task(self._wait_for_workers())
        try:
            await wait_for_first(work, self._stop.draining)
            if not work.done():
                self._note_stop()
                await wait_for_first(work, self._stop.cancelling, timeout=self._limits.drain_s)
        finally:
            self._may_spawn = False
            for worker in self._workers:
                worker.cancel()
            await work
        if self._broken:
            raise self._broken[0]

    def _note_stop(self) -> None:
        self._counters.is_stopping = True
        log.warning(
            "the run stops: the %d rollouts in flight have %g s to finish; an interrupt (Ctrl-C) cancels them now",
            self._counters.in_flight,
            self._limits.drain_s,
        )

    def _spawn(self) -> None:
        """Spawn workers up to the window; each exits when the plan is empty or the window has shrunk."""
        while self._may_spawn and self._active < self._window.size:
            self._active += 1
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._note_exit)

    def _note_exit(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self._broken.append(error)

    async def _wait_for_workers(self) -> None:
        while self._workers:
            await asyncio.wait(self._workers)

    async def _work(self) -> None:
        try:
            while await self._may_begin() and (planned := self._draw()) is not None:
                self._counters.in_flight += 1
                try:
                    await self._run_rollout(planned)
                except asyncio.CancelledError:
                    self._counters.cancelled += 1
                    raise
                finally:
                    self._counters.in_flight -= 1
                self._spawn()  # the result may have widened the window
        except GymError as error:
            self._stop.drain(StopReason("broken", error.failure.message, error.failure.remedy))
            raise
        except Exception as error:
            self._stop.drain(StopReason("broken", f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._active -= 1

    async def _may_begin(self) -> bool:
        if self._pace is not None and not self._stop.requested:
            await self._pace()
        # `_active` counts this worker, so as many of them exit as the window has shrunk by.
        return not self._stop.requested and self._active <= self._window.size

    def _draw(self) -> PlannedAttempt | None:
        planned = next(self._source, None)
        if planned is None:
            self._may_spawn = False
        return planned

    async def _run_rollout(self, planned: PlannedAttempt) -> None:
        """Attempt a rollout until it has a score or no retry is due."""
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
            due = result.is_retryable and planned.attempt_index + 1 < self._limits.max_attempts
            line = result.to_line(planned, terminal=not due, failed_at=clock.wall_clock())
            self._output.add_failure(line)  # before the wait, in which the run may be killed
            if not due:
                self._give_up(planned, result)
                return
            await asyncio.sleep(self._wait_after(planned.attempt_index))
            # Its failure is not terminal in the file, so a resumed run attempts it again.
            if self._stop.requested:
                self._counters.cancelled += 1
                return
            self._counters.retries += 1
            planned = planned.again()

    async def _attempt(self, planned: PlannedAttempt) -> Scored | Failed:
        timer = Timer(self._limits.rollout_timeout_s or _NO_LIMIT_S)
        result: AttemptResult
        try:
            result = await self._attempter.attempt(planned)
        except GymError as error:
            result = error.failure
        except (asyncio.CancelledError, Exception) as error:
            # The timer cancels this task, and an attempter may turn the cancellation into an error of its own.
            if timer.takes_back_cancellation():
                result = self._build_timeout_failure(planned)
            elif isinstance(error, asyncio.CancelledError):
                raise
            else:
                log.exception("the attempt at %s raised an unexpected error", planned.identity)
                result = Failure(Boundary.AGENT, type(error).__name__, f"{type(error).__name__}: {error}")
        finally:
            timer.stop()
        return classify(planned, result)

    def _build_timeout_failure(self, planned: PlannedAttempt) -> Failure:
        return Failure(
            Boundary.DEADLINE,
            "rollout_timeout",
            f"agent `{planned.agent}` did not answer within {self._limits.rollout_timeout_s:g} s",
            remedy="Increase +rollout_timeout_s if rollouts need more time.",
            peer=planned.agent,
        )

    def _keep(self, planned: PlannedAttempt, scored: Scored) -> None:
        self._output.add_row(scored.line)
        self._counters.note_scored(scored)
        if self._on_settled is not None:
            self._on_settled(planned, scored)
        reason = self._rules.note_scored(scored.row)
        if reason is not None:
            self._stop.drain(reason)

    def _give_up(self, planned: PlannedAttempt, failed: Failed) -> None:
        self._counters.note_failed(planned.identity, failed)
        if self._on_settled is not None:
            self._on_settled(planned, failed)
        reason = self._rules.note_failure(failed.failure)
        if reason is not None:
            self._stop.drain(reason)

    def _wait_after(self, attempt_index: int) -> float:
        bound = min(self._limits.longest_wait_s, self._limits.first_wait_s * 2.0**attempt_index)
        return self._rng.uniform(0.0, bound)
