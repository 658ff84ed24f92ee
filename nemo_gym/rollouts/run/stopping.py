"""Ends a run before its plan does, for a reason.

First it drains: nothing new starts, and what is in flight has a few seconds to finish. Then, or at a second signal,
what is left is cancelled.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nemo_gym.failures import Failure


@dataclass(frozen=True, slots=True)
class StopReason:
    """The reason why a run ends early. `code` is `interrupted`, `systemic_failure`, `too_many_failures` or `broken`."""

    code: str
    message: str
    remedy: str | None = None


class Stop:
    """The wish that a run ends, made by a signal, a rule or a caller, and seen by the collector."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.draining = asyncio.Event()
        self.cancelling = asyncio.Event()

    @property
    def requested(self) -> bool:
        return self.reason is not None

    def drain(self, reason: StopReason) -> None:
        """Let the run end; the first reason given stands."""
        if self.reason is None:
            self.reason = reason
            self.draining.set()

    def interrupt(self) -> None:
        """The effect of a signal: the first drains, the next cancels."""
        if self.requested:
            self.cancelling.set()
        else:
            self.drain(
                StopReason(
                    "interrupted",
                    "interrupted; everything finished is on disk",
                    "Go on with +resume_from_cache=true.",
                )
            )


@contextmanager
def stop_on_signals(stop: Stop) -> Iterator[None]:
    """Let SIGINT and SIGTERM interrupt the run, inside a running event loop."""
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
    """Tells from the failures of a run that going on is of no use."""

    def __init__(
        self, planned: int, *, identical_failures: int = 20, max_failed_fraction: float | None = None
    ) -> None:
        """`planned`: rollouts of the run. `identical_failures`: 0 switches that rule off."""
        self._identical_failures = identical_failures
        self._failed_allowed = None if max_failed_fraction is None else max_failed_fraction * planned
        self._planned = planned
        self._kind = ""
        self._in_a_row = 0
        self._failed = 0

    def note_success(self) -> None:
        self._in_a_row = 0

    def note_failure(self, failure: Failure) -> StopReason | None:
        """Count a rollout that has failed for good; the reason to stop, if that makes one."""
        self._failed += 1
        self._in_a_row = self._in_a_row + 1 if failure.kind == self._kind else 1
        self._kind = failure.kind
        if self._in_a_row == self._identical_failures:
            return StopReason(
                "systemic_failure",
                f"{failure.message} ({self._in_a_row} rollouts in a row failed alike: {failure.kind})",
                failure.remedy or "Correct the cause, then go on with +resume_from_cache=true.",
            )
        if self._failed_allowed is not None and self._failed > self._failed_allowed:
            return StopReason(
                "too_many_failures",
                f"{self._failed} of {self._planned} rollouts failed, more than +max_failed_fraction allows; "
                f"the latest: {failure.message}",
                failure.remedy or "Correct the cause or raise +max_failed_fraction, then resume.",
            )
        return None


async def first_of(work: asyncio.Future[Any], event: asyncio.Event, timeout: float | None = None) -> None:
    """Wait until `work` is done, `event` is set or the time is over."""
    watch: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({work, watch}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel()
