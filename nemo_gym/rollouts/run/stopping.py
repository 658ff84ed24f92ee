"""Stops a run before its plan is finished.

First the run drains: nothing new starts, and rollouts in flight have a few seconds to finish. Then, or at a second
signal, the remaining ones are cancelled.
"""

from __future__ import annotations

import asyncio
import signal
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from nemo_gym.failures import CancelledFailure, Failure
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import TOOL_ERRORS_KEY
from nemo_gym.rows.tool_errors import (
    CountedError,
    FailedCall,
    ToolErrorKind,
    count_answered_calls,
    read_tool_errors,
)

T = TypeVar("T")
INTERRUPTED, DRAINED, BUDGET = "interrupted", "drained", "budget"


@dataclass(frozen=True, slots=True)
class StopReason:
    """The reason why a run ends early.

    `code` is `interrupted`, `drained`, `budget`, `systemic_failure`, `too_many_failures` or `broken`.
    """

    code: str
    message: str
    remedy: str | None = None

    @property
    def lets_finish(self) -> bool:
        """Whether rollouts in flight have as much time as they need."""
        return self.code in (DRAINED, BUDGET)

    @property
    def is_wanted(self) -> bool:
        """Whether a person or a limit of the run ended it, and no fault."""
        return self.code in (INTERRUPTED, DRAINED, BUDGET)


class Stop:
    """A request to stop a run, made by a signal, a rule or a caller."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.draining = asyncio.Event()
        self.cancelling = asyncio.Event()

    @property
    def requested(self) -> bool:
        return self.reason is not None

    def drain(self, reason: StopReason) -> None:
        """Request a stop; the first reason is kept."""
        if self.reason is None:
            self.reason = reason
            self.draining.set()

    def interrupt(self) -> None:
        """Handle a signal: the first drains, the next cancels."""
        if self.requested:
            self.cancelling.set()
        else:
            self.drain(StopReason(INTERRUPTED, "interrupted; all finished rollouts are on disk"))


@contextmanager
def stop_on_signals(stop: Stop) -> Iterator[None]:
    """Interrupt the run on SIGINT and SIGTERM while the block runs, inside a running event loop."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stop.interrupt)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class StopRules:
    """Decides from the failures of a run when to stop it."""

    def __init__(
        self, planned: int, *, identical_failures: int = 20, max_failed_fraction: float | None = None
    ) -> None:
        """`planned`: rollouts of the run. `identical_failures`: of rollouts, or of calls of a tool; 0 for never."""
        self._identical_failures = identical_failures
        self._failed_allowed = None if max_failed_fraction is None else max_failed_fraction * planned
        self._planned = planned
        self._kind = ""
        self._in_a_row = 0
        self._failed = 0
        self._streaks = ToolStreaks(identical_failures)

    def note_scored(self, row: AnyRow) -> StopReason | None:
        """Count a scored rollout; return a reason to stop, if a tool of its environment always fails."""
        self._in_a_row = 0
        streak = self._streaks.add(row)
        if streak is None:
            return None
        return StopReason(
            "systemic_failure",
            f"{streak.count} consecutive calls of `{streak.call.tool}` failed: {streak.call}",
            "Correct the environment, then resume with +resume_from_cache=true +retry_tool_errors=true "
            "(gym: --resume +retry_tool_errors=true); +stop_after_identical_failures=0 never stops.",
        )

    def note_failure(self, failure: Failure) -> StopReason | None:
        """Count a final failure; return a reason to stop, if there is one."""
        self._failed += 1
        self._in_a_row = self._in_a_row + 1 if failure.kind == self._kind else 1
        self._kind = failure.kind
        if self._in_a_row == self._identical_failures:
            return StopReason(
                "systemic_failure",
                f"{failure.message} ({self._in_a_row} consecutive rollouts failed with {failure.kind})",
                failure.remedy or "Correct the cause, then resume with +resume_from_cache=true.",
            )
        if self._failed_allowed is not None and self._failed > self._failed_allowed:
            return StopReason(
                "too_many_failures",
                f"{self._failed} of {self._planned} rollouts failed, more than +max_failed_fraction allows; "
                f"the latest: {failure.message}",
                failure.remedy or "Correct the cause or raise +max_failed_fraction, then resume.",
            )
        return None

    def take_back_failure(self) -> None:
        """Forget a final failure: its rollout is attempted again."""
        self._failed -= 1


async def wait_for_first(
    work: asyncio.Future[Any], event: asyncio.Event, timeout: float | None = None
) -> None:
    """Wait until `work` is done, `event` is set or `timeout` seconds have passed."""
    watch: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({work, watch}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel()


async def run_unless_stopped(work: Coroutine[Any, Any, T], stop: Stop) -> T:
    """Return the result of `work`, before which nothing of a run begins. Raises `CancelledFailure` at a stop."""
    task = asyncio.ensure_future(work)
    try:
        await wait_for_first(task, stop.draining)
        if not task.done():
            assert stop.reason is not None
            raise CancelledFailure(
                "the run was stopped before its first rollout: this start has written nothing",
                code=stop.reason.code,
            )
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})


# --- Tools that fail by the environment -------------------------------------------------------------------------------
# The successive calls of each tool, over rollouts, that failed by the environment's fault with one cause.
# A rollout counts when it is settled. A call that the model got wrong says nothing about the tool, so it is left
# out. A rollout in which a call of the tool succeeded ends its streak. Calls without a route end no run, because
# environments without any tool judge the calls themselves; one rollout alone ends none either, because its task may
# be at fault.


@dataclass(slots=True)
class Streak:
    """Successive failed calls of one tool."""

    call: FailedCall
    """The first of them."""
    count: int = 0
    rollouts: int = 0


class ToolStreaks:
    """The streaks of all tools."""

    def __init__(self, longest: int) -> None:
        """`longest`: the calls of a streak that is reported; 0 for none."""
        self._longest = longest
        self._streaks: dict[str, Streak] = {}

    def add(self, row: AnyRow) -> Streak | None:
        """Count the calls of a scored row; return a streak that has become too long."""
        if not self._longest or (TOOL_ERRORS_KEY not in row and not self._streaks):
            return None
        errors: defaultdict[str, list[CountedError]] = defaultdict(list)
        for error in read_tool_errors(row):
            errors[error.call.tool].append(error)
        answered = count_answered_calls(row)
        for tool in {*answered, *errors}:
            if answered[tool] > sum(count for _, count in errors[tool]):
                self._streaks.pop(tool, None)
                continue
            for error in errors[tool]:
                if self._is_too_long(error):
                    return self._streaks[tool]
        return None

    def _is_too_long(self, error: CountedError) -> bool:
        """Add failed calls to the streak of their tool; return whether it is too long now."""
        call = error.call
        if not call.is_environments or call.kind is ToolErrorKind.NO_ROUTE:
            return False
        streak = self._streaks.get(call.tool)
        if streak is None or streak.call.cause_key != call.cause_key:
            streak = self._streaks[call.tool] = Streak(call)
        streak.count += error.times
        streak.rollouts += 1
        return streak.count >= self._longest and streak.rollouts > 1
