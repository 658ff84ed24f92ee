"""An event loop with virtual time: when no task is ready, the clock jumps to the next timer.

Hours of waiting take milliseconds, and every repetition is the same: the loop never reads the system's clock, waits
for no descriptor, and runs executor jobs in its own thread.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Moves the clock to the next timer instead of waiting until then."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError(
                "no task is ready and no timer is set: outside the simulation the program would hang forever"
            )
        self.now += max(0.0, timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop for code that waits only for timers and tasks. Sockets, pipes and signals are ignored."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run `func` at once, because threads would finish in a random order."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:  # noqa: BLE001 - it is raised where the future is awaited
            future.set_exception(error)
        return future


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
