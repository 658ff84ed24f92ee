"""The time of an allocation, after which no rollout starts (`dispatch_budget_s`).

Rollouts in flight finish. A rollout that is not started writes no row, so a resumed run starts it with the whole time
of the next allocation.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nemo_gym.clock import monotonic
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.collector import Attempter

_SHARE = 0.75
_LEAST_MEASURED = 5


class DispatchLatencyTracker:
    """The durations of finished attempts, and the time to keep free for another that follows from them."""

    def __init__(self) -> None:
        self._durations: list[float] = []
        self.drained = 0
        """The number of attempts that were not started because the time was over."""

    def record(self, seconds: float) -> None:
        insort(self._durations, seconds)

    def record_drained(self) -> None:
        self.drained += 1

    def quantile(self, q: float) -> float | None:
        """Return the duration in seconds that the share `q` of the attempts did not exceed; None without any."""
        count = len(self._durations)
        return self._durations[min(int(q * count), count - 1)] if count else None

    def drain_margin(self, configured: float | None) -> float | None:
        """Return `configured`, else the time of three quarters of the attempts once five have finished, else None."""
        if configured is not None:
            return configured
        return self.quantile(_SHARE) if len(self._durations) >= _LEAST_MEASURED else None

    def summary(self) -> str:
        count = len(self._durations)
        times = (f"p{round(100 * q)} {self.quantile(q):.1f} s" for q in (0.5, _SHARE, 0.95)) if count else ()
        return ", ".join([f"{count} attempts finished", *times, f"{self.drained} were not started"])


class DispatchBudget:
    """Limits the starts of rollouts to `seconds` from now, less a margin."""

    def __init__(
        self, seconds: float, margin_s: float | None = None, *, clock: Callable[[], float] = monotonic
    ) -> None:
        """`margin_s`: by default the time in which three quarters of the attempts have finished, once five have."""
        self._seconds = seconds
        self._margin_s = margin_s
        self._clock = clock
        self._end = clock() + seconds
        self._latencies = DispatchLatencyTracker()
        self.is_spent = False
        """True once a rollout was not started."""

    def limit_starts(self, plan: Iterable[PlannedAttempt]) -> Iterator[PlannedAttempt]:
        """Yield the planned attempts while there is time for another."""
        for planned in plan:
            if self._end - self._clock() < (self._latencies.drain_margin(self._margin_s) or 0.0):
                self.is_spent = True
                return
            yield planned

    def time_attempts(self, attempter: Attempter) -> Attempter:
        """Return an attempter that measures its attempts."""
        return _TimedAttempter(attempter, self._clock, self._latencies.record)

    def describe(self) -> str:
        return (
            f"the {self._seconds:g} s of +dispatch_budget_s are over, so the remaining rollouts were not started; "
            "+resume_from_cache=true starts them"
        )


@dataclass(frozen=True, slots=True)
class _TimedAttempter:
    attempter: Attempter
    clock: Callable[[], float]
    note: Callable[[float], None]

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        began = self.clock()
        result = await self.attempter.attempt(task)
        self.note(self.clock() - began)
        return result
