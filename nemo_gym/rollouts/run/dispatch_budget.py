"""The time of an allocation, after which no rollout starts (`dispatch_budget_s`).

Rollouts in flight finish. A rollout that is not started writes no row, so a resumed run starts it with the whole time
of the next allocation.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator

from nemo_gym.clock import monotonic
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.collector import Attempter

_SHARE = 0.75
_LEAST_MEASURED = 5


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
        self._durations: list[float] = []
        self.is_spent = False
        """True once a rollout was not started."""

    def starts_of(self, plan: Iterable[PlannedAttempt]) -> Iterator[PlannedAttempt]:
        """Yield the planned attempts while there is time for another."""
        for planned in plan:
            if self._end - self._clock() < self._margin():
                self.is_spent = True
                return
            yield planned

    def timed(self, attempter: Attempter) -> Attempter:
        """Return an attempter that measures its attempts."""
        return _TimedAttempter(attempter, self._clock, lambda seconds: insort(self._durations, seconds))

    def describe(self) -> str:
        return (
            f"the {self._seconds:g} s of +dispatch_budget_s are over, so the remaining rollouts were not started; "
            "+resume_from_cache=true starts them"
        )

    def _margin(self) -> float:
        if self._margin_s is not None:
            return self._margin_s
        count = len(self._durations)
        return self._durations[int(_SHARE * count)] if count >= _LEAST_MEASURED else 0.0


class _TimedAttempter:
    def __init__(
        self, attempter: Attempter, clock: Callable[[], float], note: Callable[[float], None]
    ) -> None:
        self._attempter = attempter
        self._clock = clock
        self._note = note

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        began = self._clock()
        result = await self._attempter.attempt(task)
        self._note(self._clock() - began)
        return result
