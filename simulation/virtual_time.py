"""An event loop in which time passes only when there is nothing left to do, and then at once.

A run that waits for hours is over in a moment, and is the same run whenever it is repeated: the loop never asks the
system for the time, waits for no descriptor, and computes in its own thread what was meant for another.
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
                "nothing is left to do, and nothing to wait for: this would have hung for ever"
            )
        self.now += max(0.0, timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For code that waits for timers and for itself; sockets, pipes and signals are never looked at."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Compute at once: threads would finish in an order of their own."""
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
