"""A monitor that names request handlers which block the event loop, and with it every session of the server.

A timer fires on the loop every 50 ms. When it is overdue by 100 ms, a thread samples the stack of the loop's thread to
find the handler and the current line. When the timer fires at last, the delay is recorded for that handler, minus the
time that the loop's thread waited for a CPU (where /proc provides it).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, Self

log = logging.getLogger(__name__)

HOLDS_S = 0.1
_BEAT_S = 0.05
_LOGGED_AGAIN_AFTER_S = 30.0
_LOOP_MODULES = frozenset(
    f"asyncio.{name}" for name in ("runners", "base_events", "events", "selector_events", "tasks")
)
_CALLERS = (
    *("nemo_gym.serving.", "nemo_gym.transport.request_body.", "nemo_gym.verify.judge_calls."),
    *("uvicorn.", "starlette.", "fastapi.", "anyio.", "contextlib.", "functools."),
)
"""Packages and modules that call handlers and contain none."""


@dataclass(slots=True)
class Held:
    """Statistics of one handler that blocked the loop."""

    times: int = 0
    longest_s: float = 0.0
    logged_at: float = float("-inf")


class Sample(NamedTuple):
    """A stack sample: the qualified name of the handler, and the location of the innermost frame."""

    handler: str
    place: str


class LoopMonitor:
    """Monitors the running event loop inside its `with` block."""

    def __init__(self, server: str) -> None:
        self.held: dict[str, Held] = {}
        """Handler → statistics."""
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._schedstat = _open_schedstat()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample_when_overdue, name="loop monitor", daemon=True)
        self._sample: Sample | None = None
        self._sampled_due = 0.0
        """The due time of the beat that was overdue at the sample."""

    def __enter__(self) -> Self:
        self._schedule()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._stopping.set()
        self._thread.join()
        if self._schedstat is not None:
            os.close(self._schedstat)

    def to_wire(self) -> dict[str, Any]:
        return {
            handler: {"times": held.times, "longest_s": round(held.longest_s, 3)}
            for handler, held in self.held.items()
        }

    def _schedule(self) -> None:
        self._starved_s = self._starvation_s()
        self._due = time.monotonic() + _BEAT_S
        self._timer = self._loop.call_later(_BEAT_S, self._beat)

    def _beat(self) -> None:
        sample, self._sample = self._sample, None
        if sample is not None and self._sampled_due == self._due:
            held_s = time.monotonic() - self._due - (self._starvation_s() - self._starved_s)
            if held_s >= HOLDS_S:
                self._note(sample, held_s)
        self._schedule()

    def _sample_when_overdue(self) -> None:
        while not self._stopping.wait(_BEAT_S):
            due = self._due
            if self._sampled_due != due and time.monotonic() - due >= HOLDS_S:
                self._sampled_due = due
                self._sample = describe(sys._current_frames().get(self._loop_thread))

    def _starvation_s(self) -> float:
        """Seconds that the loop's thread has waited for a CPU; 0 without /proc."""
        if self._schedstat is None:
            return 0.0
        return int(os.pread(self._schedstat, 100, 0).split()[1]) / 1e9

    def _note(self, sample: Sample, seconds: float) -> None:
        held = self.held.setdefault(sample.handler, Held())
        held.times += 1
        held.longest_s = max(held.longest_s, seconds)
        now = time.monotonic()
        if now - held.logged_at >= _LOGGED_AGAIN_AFTER_S:
            held.logged_at = now
            log.warning(
                "%s of `%s` held the event loop for %.2f s (at %s); move CPU-bound work to a worker process: @off_loop",
                sample.handler, self._server, seconds, sample.place,
            )  # fmt: skip


def _open_schedstat() -> int | None:
    """Open this thread's scheduler statistics; None without /proc."""
    with contextlib.suppress(OSError):
        return os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    return None


def describe(frame: FrameType | None) -> Sample:
    """Find the handler in a stack, given its innermost `frame`."""
    if frame is None:
        return Sample("an unknown handler", "?")
    place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
    handler = "the server itself"
    outer: FrameType | None = frame
    while outer is not None and outer.f_globals.get("__name__") not in _LOOP_MODULES:
        if not _calls_handlers(outer):
            handler = outer.f_code.co_qualname
        outer = outer.f_back
    return Sample(handler, place)


def _calls_handlers(frame: FrameType) -> bool:
    return f"{frame.f_globals.get('__name__')}.".startswith(_CALLERS)
