"""Simulated operating-system processes. The tasks of a process end with it, at any await."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context, ContextVar
from typing import Any, TypeVar

from simulation.events import AttemptId

T = TypeVar("T")

_process: ContextVar[Process | None] = ContextVar("nemo_gym_simulated_process", default=None)
_attempt: ContextVar[AttemptId | None] = ContextVar("nemo_gym_simulated_attempt", default=None)


class ProcessEnded(asyncio.CancelledError):
    """Raised when a process dies, and when a dead process tries an operation. No code should catch it."""


class Process:
    """One process. It owns every task that is created in it."""

    def __init__(self, name: str, node: str = "") -> None:
        """`node`: its machine; empty for the launcher's."""
        self.name = name
        self.node = node
        self.is_alive = True
        self._tasks: dict[
            asyncio.Task[Any], None
        ] = {}  # ordered, so that a replay ends them in the same order

    def spawn(
        self, work: Coroutine[Any, Any, T], name: str, attempt: AttemptId | None = None
    ) -> asyncio.Task[T]:
        """Run `work` in this process for `attempt`, without the caller's context."""
        context = Context()
        context.run(_process.set, self)
        context.run(_attempt.set, attempt)
        return asyncio.get_running_loop().create_task(work, name=name, context=context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        if not self.is_alive:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """The running tasks."""
        return list(self._tasks)

    def kill(self) -> None:
        """End the process. Its tasks unwind, and any operation that they try raises `ProcessEnded`."""
        self.is_alive = False
        for task in self.tasks:
            task.cancel()

    async def ended(self) -> None:
        """Wait until all tasks have ended after `kill`. Tasks that swallow cancellation are cancelled repeatedly."""
        while tasks := self.tasks:
            _, remaining = await asyncio.wait(tasks, timeout=1.0)
            for task in remaining:
                task.cancel()

    def require_alive(self) -> None:
        """Raise `ProcessEnded` if the process is dead."""
        if not self.is_alive:
            raise ProcessEnded(f"{self.name} is dead")


def require_alive() -> None:
    """Raise `ProcessEnded` if the running code belongs to a dead process."""
    process = _process.get()
    if process is not None:
        process.require_alive()


def attempt_at_work() -> AttemptId | None:
    """Return the attempt that the running code works for, if known."""
    return _attempt.get()


def owned_task_factory(
    loop: asyncio.AbstractEventLoop, work: Any, *, context: Context | None = None
) -> asyncio.Task[Any]:
    """Create a task that belongs to the process it is created in."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
    process = _process.get() if context is None else context.get(_process)
    if process is not None:
        process.adopt(task)
    return task
