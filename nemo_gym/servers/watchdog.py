"""Names the handler that holds the event loop, because while it does every other session waits.

A thread asks the loop for a sign of life. When none comes for a tenth of a second, the thread looks at what the
loop's thread is executing: the handler that was called last, and the line it is at. Code that keeps the interpreter
to itself (a regular expression that backtracks) is met at the moment it lets go. Time that the loop's thread spent
waiting for a processor is not held against anybody. An idle server is left alone.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)

HOLDS_S = 0.1
_LOOKS_EVERY_S = 0.05
_LOGGED_AGAIN_AFTER_S = 30.0
_LOOP_MODULES = frozenset(
    f"asyncio.{name}" for name in ("runners", "base_events", "events", "selector_events", "tasks")
)
_FRAMEWORK = ("uvicorn", "starlette", "fastapi", "anyio", "contextlib", "functools")
_OURS = frozenset(
    f"nemo_gym.{name}"
    for name in (
        "judge",
        "servers.app",
        "servers.base",
        "servers.gate",
        "servers.http_protocol",
        "servers.inbound",
        "servers.routes",
    )
)
"""What calls handlers, and so is none."""


@dataclass(slots=True)
class Held:
    """How one handler has held the loop."""

    times: int = 0
    longest_s: float = 0.0
    logged_at: float = float("-inf")


class LoopWatchdog:
    """Watches the loop of the thread that makes it."""

    def __init__(self, server: str, is_busy: Callable[[], bool], *, holds_s: float = HOLDS_S) -> None:
        """`is_busy`: whether there are requests in flight."""
        self.held: dict[str, Held] = {}
        """By handler."""
        self._server = server
        self._is_busy = is_busy
        self._holds_s = holds_s
        self._loop = asyncio.get_running_loop()
        self._watched = threading.current_thread()
        self._alive = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._alive.set()
        self._thread.join()

    def to_wire(self) -> dict[str, Any]:
        return {
            handler: {"times": held.times, "longest_s": round(held.longest_s, 3)}
            for handler, held in self.held.copy().items()
        }

    def _watch(self) -> None:
        own, loops = _Starvation(threading.get_native_id()), _Starvation(self._watched.native_id or 0)
        with closing(own), closing(loops):
            while True:
                asleep = _Stopwatch(own)
                if self._stopping.wait(_LOOKS_EVERY_S):
                    return
                if self._is_busy() and not self._is_late(asleep, _LOOKS_EVERY_S):
                    self._look(_Stopwatch(own), _Stopwatch(loops))

    def _is_late(self, since: _Stopwatch, expected_s: float = 0.0) -> bool:
        """Whether the interpreter was long in coming back to this thread, which had let go of it; notes who kept it."""
        handler, place = describe(self._frame())
        late_s = since.seconds() - expected_s
        if late_s < self._holds_s:
            return False
        self._note(handler, place, late_s)
        return True

    def _look(self, looking: _Stopwatch, silent: _Stopwatch) -> None:
        """Wait for a sign of life, and note who keeps the loop from giving it, or us from seeing it."""
        self._alive.clear()
        try:
            self._loop.call_soon_threadsafe(self._alive.set)
        except RuntimeError:  # the loop is closed
            self._stopping.set()
            return
        if self._is_late(looking):  # a loop that is woken by a socket lets go of the interpreter
            return
        is_alive = self._alive.wait(self._holds_s)
        handler, place = describe(self._frame())
        self._alive.wait()
        held_s = (looking if is_alive else silent).seconds()
        if held_s >= self._holds_s:
            self._note(handler, place, held_s)

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._watched.ident or 0)

    def _note(self, handler: str, place: str, seconds: float) -> None:
        held = self.held.setdefault(handler, Held())
        held.times += 1
        held.longest_s = max(held.longest_s, seconds)
        now = time.monotonic()
        if now - held.logged_at >= _LOGGED_AGAIN_AFTER_S:
            held.logged_at = now
            log.warning(
                "%s of `%s` held the event loop for %.2f s (at %s); what computes belongs into a worker: @off_loop",
                handler, self._server, seconds, place,
            )  # fmt: skip


class _Starvation:
    """How long a thread of this process has waited for a processor; always 0 where the system does not tell.

    It is read without letting go of the interpreter, because whoever took it meanwhile would not be seen.
    """

    def __init__(self, thread: int) -> None:
        try:
            self._fd: int | None = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = None
            return
        self._read = ctypes.PyDLL(None).pread
        self._read.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long)
        self._text = ctypes.create_string_buffer(100)

    def seconds(self) -> float:
        if self._fd is None or self._read(self._fd, self._text, len(self._text) - 1, 0) <= 0:
            return 0.0
        return int(self._text.value.split()[1]) / 1e9

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)


class _Stopwatch:
    """Seconds since it was made, without those in which a thread was starved."""

    def __init__(self, starvation: _Starvation) -> None:
        self._starvation = starvation
        self._began = time.monotonic() - starvation.seconds()

    def seconds(self) -> float:
        return time.monotonic() - self._starvation.seconds() - self._began


def describe(frame: FrameType | None) -> tuple[str, str]:
    """The handler in a stack that begins at its innermost `frame`, and the place where that is."""
    if frame is None:
        return "an unknown handler", "?"
    place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
    handler: FrameType | None = None
    inner: FrameType | None = frame
    while inner is not None and inner.f_globals.get("__name__") not in _LOOP_MODULES:
        if not _calls_handlers(inner):
            handler = inner
        inner = inner.f_back
    return (handler.f_code.co_qualname if handler is not None else "the server itself"), place


def _calls_handlers(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__"))
    return module in _OURS or module.partition(".")[0] in _FRAMEWORK
