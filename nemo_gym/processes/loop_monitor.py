"""Names handlers that hold the event loop: while one does, every other session of the server waits.

A timer of the loop beats every 50 ms. A thread looks whether the beat is overdue by 100 ms, and then samples the stack
of the loop's thread: the handler that was called last, and the line it is at. The beat, when it comes, knows how long
it was held up. The time that the loop's thread waited for a processor is left out, where the system tells it.
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
_CALLERS = frozenset(
    f"nemo_gym.{name}"
    for name in (
        "judge",
        "transport.request_body",
        *(f"servers.{name}" for name in ("app", "base", "disconnects", "loop_monitor", "middleware")),
        *(f"servers.{name}" for name in ("routes", "session_locks")),
    )
)
"""Modules that call handlers, and hold none."""
_FRAMEWORKS = frozenset({"uvicorn", "starlette", "fastapi", "anyio", "contextlib", "functools"})


@dataclass(slots=True)
class Held:
    """How one handler has held the loop."""

    times: int = 0
    longest_s: float = 0.0
    logged_at: float = float("-inf")


class Sample(NamedTuple):
    """What a thread executes: the qualified name of the handler, and the place of the innermost frame."""

    handler: str
    place: str


class LoopMonitor:
    """Monitors the running event loop while its `with` block is entered."""

    def __init__(self, server: str) -> None:
        self.held: dict[str, Held] = {}
        """By handler."""
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._schedstat = _open_schedstat()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample_when_overdue, name="loop monitor", daemon=True)
        self._sample: Sample | None = None
        self._sampled_due = 0.0
        """Which beat was overdue when the sample was taken."""

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
        """How long the loop's thread has waited for a processor; 0 where the system does not tell."""
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
    """A descriptor of this thread's scheduler statistics; None where there are none."""
    with contextlib.suppress(OSError):
        return os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    return None


def describe(frame: FrameType | None) -> Sample:
    """The handler in a stack that begins at its innermost `frame`, and the place of that frame."""
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
    module = str(frame.f_globals.get("__name__"))
    return module in _CALLERS or module.partition(".")[0] in _FRAMEWORKS
