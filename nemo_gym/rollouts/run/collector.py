"""Runs a plan with a bounded number of rollouts in flight, each until it has a row or a final failure.

One failed rollout never ends a run. Each worker takes its next rollout when the previous one is finished, so memory is
bounded by the rollouts in flight. An `Attempter` makes the attempts.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from nemo_gym import clock
from nemo_gym.failures import Boundary, Failure, GymError
from nemo_gym.rollouts.control.verbs import Tuning
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run._window import AutoWindow, Window, build_window
from nemo_gym.rollouts.run.answer import AttemptResult, Failed, Scored, classify
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.options import RunLimits as RunLimits
from nemo_gym.rollouts.run.sources import OpenSource
from nemo_gym.rollouts.run.stopping import Stop, StopReason, StopRules, wait_for_first
from nemo_gym.rows.identity import RolloutId
from nemo_gym.transport.deadline import Timer

log = logging.getLogger(__name__)

_NO_LIMIT_S = 1e8
"""Three years, in seconds."""
_CANCELLED = Failure(
    Boundary.CANCELLED,
    "cancelled_by_control",
    "the attempt was cancelled by a request of its run's control",
    remedy="`gym ctl requeue`, or a resumed run, attempts the rollout again.",
)


class Attempter(Protocol):
    """Makes one attempt: returns the agent's answer or a failure."""

    async def attempt(self, task: PlannedAttempt) -> AttemptResult: ...


class ResultSink(Protocol):
    """Stores results. Both methods return when the line would survive the death of this process."""

    def add_row(self, line: bytes) -> None: ...

    def add_failure(self, line: bytes) -> None: ...


@dataclass(slots=True, eq=False)
class _Worker:
    """One of the rollouts in flight after another."""

    task: asyncio.Task[None] | None = None
    planned: PlannedAttempt | None = None
    """The attempt in flight; None between rollouts."""
    began: float = 0.0
    is_cancelled: bool = False
    """True if control has cancelled this attempt."""


@dataclass(frozen=True, slots=True)
class _GivenUp:
    """A rollout that has failed."""

    attempt_index: int
    failed: Failed


@dataclass(slots=True)
class _FailedRollouts:
    given_up: dict[RolloutId, _GivenUp] = field(default_factory=dict)
    requeued: deque[PlannedAttempt] = field(default_factory=deque)
    """Those that are attempted again, before the rest of the plan."""
    uncounted: dict[RolloutId, int] = field(default_factory=dict)
    """Attempts that do not count towards the limit: those before a requeue, and failures during a pause."""


class Collector:
    """Runs a plan. It is the `Controllable` of `nemo_gym.rollouts.control`."""

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
        self._workers: dict[asyncio.Task[None], _Worker] = {}
        self._active = 0
        """Workers that have not decided to exit."""
        self._broken: list[BaseException] = []
        self._source: Iterator[PlannedAttempt] = iter(())
        self._open: OpenSource | None = None
        self._may_spawn = False
        self._resumed: asyncio.Event | None = None
        """Set at the end of a pause; None while there is none."""
        self._failed = _FailedRollouts()
        self.on_tuned: Callable[[RunLimits], None] = lambda limits: None
        """Called with the limits that `tune` has changed."""
        self._clock: Callable[[], float]
        """The event loop's clock, cached because finding the loop costs a system call."""

    async def run(self, plan: Iterable[PlannedAttempt]) -> None:
        """Return when every planned rollout is settled, or when the run was stopped and nothing is in flight.

        The rollouts of an open source are settled, by `on_settled`, also if their agents want no row. Raises the error
        that made it impossible to continue (a full disk, a deleted dataset), after draining.
        """
        self._source, self._may_spawn = iter(plan), True
        if isinstance(plan, OpenSource):
            self._open, plan.on_ready = plan, self._go_on
        self._clock = asyncio.get_running_loop().time
        self._spawn()
        work = asyncio.create_task(self._wait_for_workers())
        try:
            await wait_for_first(work, self._stop.draining)
            if not work.done():
                self.resume()
                self._end_source()
                await wait_for_first(work, self._stop.cancelling, timeout=self._note_stop())
        finally:
            self._may_spawn = False
            self._end_source()
            for worker in self._workers:
                worker.cancel()
            await work
        if self._broken:
            error = self._broken[0]
            self._broken.clear()
            try:
                raise error
            finally:
                del error  # cycles would keep the files of a plan open that has raised

    def _note_stop(self) -> float | None:
        """Return the seconds that rollouts in flight have to finish; None for as long as they take."""
        self._counters.is_stopping = True
        reason = self._stop.reason
        seconds = None if reason is not None and reason.lets_finish else self._limits.drain_s
        log.warning(
            "the run stops: the %d rollouts in flight %s; an interrupt (Ctrl-C) cancels them now",
            self._counters.in_flight,
            "finish" if seconds is None else f"have {seconds:g} s to finish",
        )
        return seconds

    def _spawn(self) -> None:
        """Spawn workers up to the window; each exits when the plan is empty or the window has shrunk."""
        most = self._window.size
        if self._open is not None:
            most = self._open.bound(most, self._counters.in_flight)
        while self._may_spawn and self._active < most:
            self._active += 1
            worker = _Worker()
            worker.task = asyncio.create_task(self._work(worker))
            self._workers[worker.task] = worker
            worker.task.add_done_callback(self._note_exit)

    def _note_exit(self, task: asyncio.Task[None]) -> None:
        del self._workers[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken.append(error)

    def _go_on(self) -> None:
        """Spawn workers for what has come into an open source."""
        if not self._stop.requested:
            self._may_spawn = True
            self._spawn()

    def _end_source(self) -> None:
        """Start nothing more of an open source."""
        if self._open is not None:
            self._open.on_ready = lambda: None
            self._open.close()

    async def _wait_for_workers(self) -> None:
        while True:
            while self._workers:
                await asyncio.wait(self._workers)
            if self._open is None or not await self._open.wait_for_more():
                return
            self._go_on()
            await asyncio.sleep(0)

    async def _work(self, worker: _Worker) -> None:
        try:
            while await self._may_begin() and (planned := self._draw()) is not None:
                self._counters.in_flight += 1
                try:
                    await self._run_rollout(worker, planned)
                except asyncio.CancelledError:
                    if not self._is_cancelled_alone(worker):
                        self._counters.cancelled += 1
                        raise
                finally:
                    worker.planned = None
                    self._counters.in_flight -= 1
                self._spawn()  # the result may have widened the window
        except GymError as error:
            self._stop.drain(StopReason("broken", error.failure.message, error.failure.remedy))
            raise
        except Exception as error:
            self._stop.drain(StopReason("broken", f"{type(error).__name__}: {error}"))
            raise
        finally:
            worker.task = None
            self._active -= 1

    async def _may_begin(self) -> bool:
        if self._pace is not None and not self._stop.requested:
            await self._pace()
        if self._resumed is not None:
            await self._wait_for_resume()
        # `_active` counts this worker, so as many of them exit as the window has shrunk by.
        return not self._stop.requested and self._active <= self._window.size

    async def _wait_for_resume(self) -> None:
        while self._resumed is not None and not self._stop.requested:
            await self._resumed.wait()

    def _draw(self) -> PlannedAttempt | None:
        if self._failed.requeued:
            return self._failed.requeued.popleft()
        planned = next(self._source, None)
        if planned is None:
            self._may_spawn = False
        return planned

    async def _run_rollout(self, worker: _Worker, planned: PlannedAttempt) -> None:
        """Attempt a rollout until it has a score or no retry is due."""
        while True:
            worker.planned, worker.began = planned, (began := self._clock())
            result = await self._attempt(planned)
            if isinstance(result, Scored):
                self._window.note_scored(self._clock() - began)
                self._keep(planned, result)
                return
            self._window.note_failed(result.failure)
            if not result.persist:
                self._counters.discarded += 1
                if self._open is not None and self._on_settled is not None:
                    self._on_settled(planned, result)
                return
            due = result.is_retryable and self._has_attempts_left(planned)
            line = result.to_line(planned, terminal=not due, failed_at=clock.wall_clock())
            self._output.add_failure(line)  # before the wait, in which the run may be killed
            if not due:
                self._give_up(planned, result)
                return
            await asyncio.sleep(self._wait_after(planned.attempt_index))
            await self._wait_for_resume()
            # Its failure is not terminal in the file, so a resumed run attempts it again.
            if self._stop.requested:
                self._counters.cancelled += 1
                return
            self._counters.retries += 1
            planned = planned.again()

    def _has_attempts_left(self, planned: PlannedAttempt) -> bool:
        """Return whether another attempt is due after a failure that may pass. During a pause it always is."""
        identity, uncounted = planned.identity, self._failed.uncounted.get(planned.identity, 0)
        if self._resumed is not None:
            self._failed.uncounted[identity] = uncounted + 1
            return True
        return planned.attempt_index + 1 - uncounted < self._limits.max_attempts

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
        self._counters.note_scored(planned.agent, scored)
        if self._on_settled is not None:
            self._on_settled(planned, scored)
        reason = self._rules.note_scored(scored.row)
        if reason is not None:
            self._stop.drain(reason)

    def _give_up(self, planned: PlannedAttempt, failed: Failed) -> None:
        self._failed.given_up[planned.identity] = _GivenUp(planned.attempt_index, failed)
        self._counters.note_failed(planned.identity, failed)
        if self._on_settled is not None:
            self._on_settled(planned, failed)
        if self._resumed is not None or failed.failure is _CANCELLED:
            return
        reason = self._rules.note_failure(failed.failure)
        if reason is not None:
            self._stop.drain(reason)

    def _wait_after(self, attempt_index: int) -> float:
        bound = min(self._limits.longest_wait_s, self._limits.first_wait_s * 2.0**attempt_index)
        return self._rng.uniform(0.0, bound)

    # --- Control (`nemo_gym.rollouts.control.run_control.Controllable`) -------------------------------------------

    @property
    def tuning(self) -> Tuning:
        limits = self._limits
        return Tuning(limits.in_parallel, limits.max_attempts, limits.rollout_timeout_s)

    def tune(self, tuning: Tuning) -> None:
        if tuning.num_samples_in_parallel != self._limits.in_parallel:
            left = self._counters.planned - self._counters.settled
            self._window = build_window(tuning.num_samples_in_parallel, left, self._limits.most_in_parallel)
            self._counters.auto = self._window if isinstance(self._window, AutoWindow) else None
        self._limits = replace(
            self._limits,
            in_parallel=tuning.num_samples_in_parallel,
            max_attempts=tuning.max_attempts,
            rollout_timeout_s=tuning.rollout_timeout_s,
        )
        self.on_tuned(self._limits)
        self._spawn()

    def pause(self) -> None:
        self._resumed = asyncio.Event()
        self._counters.is_paused = True
        self._window.stop_measuring()

    def resume(self) -> None:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None
            self._counters.is_paused = False
            self._window.measure_anew()

    def note_refused(self) -> None:
        """Record that an overloaded endpoint rejected a call."""
        self._window.note_refused()

    def list_in_flight(self) -> dict[RolloutId, float]:
        workers = self._workers.values()
        return {
            each.planned.identity: self._clock() - each.began for each in workers if each.planned is not None
        }

    def list_failed(self) -> dict[RolloutId, str]:
        return {identity: each.failed.failure_class for identity, each in self._failed.given_up.items()}

    def cancel(self, rollouts: Collection[RolloutId]) -> None:
        for worker in self._workers.values():
            is_named = worker.planned is not None and worker.planned.identity in rollouts
            if is_named and worker.task is not None and not worker.is_cancelled:
                worker.is_cancelled = True
                worker.task.cancel()

    def requeue(self, plan: Iterable[PlannedAttempt]) -> None:
        for planned in plan:
            given_up = self._failed.given_up.pop(planned.identity, None)
            if given_up is None:
                continue
            made = given_up.attempt_index + 1
            self._failed.uncounted[planned.identity] = made
            self._counters.take_back_failed(given_up.failed)
            self._rules.take_back_failure()
            self._failed.requeued.append(replace(planned, attempt_index=made))
        self._may_spawn = True
        self._spawn()

    def _is_cancelled_alone(self, worker: _Worker) -> bool:
        """Return whether only control has cancelled the worker. Then its attempt has failed, and the worker goes on."""
        assert worker.task is not None
        assert worker.planned is not None
        if not worker.is_cancelled or worker.task.uncancel():
            return False
        worker.is_cancelled = False
        failed = Failed(_CANCELLED, _CANCELLED.kind)
        line = failed.to_line(worker.planned, terminal=True, failed_at=clock.wall_clock())
        self._output.add_failure(line)
        self._give_up(worker.planned, failed)
        return True
