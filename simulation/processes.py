"""Operating-system processes of the simulation: what runs in one ends with it, in the middle of whatever it did."""

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
    """Raised where a process dies, and wherever a dead one would act on the world. Nothing should catch it."""


class Process:
    """One process. Every task that is made in it, by whomever, belongs to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self._tasks: dict[
            asyncio.Task[Any], None
        ] = {}  # ordered, so that a replay ends them in the same order

    def spawn(
        self, work: Coroutine[Any, Any, T], name: str, attempt: AttemptId | None = None
    ) -> asyncio.Task[T]:
        """Run `work` in this process, for `attempt`; nothing else of the caller's context goes along."""
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
        """What runs in it now."""
        return list(self._tasks)

    def kill(self) -> None:
        """End it. Its tasks unwind, but whatever they still try is refused: for the world they are gone."""
        self.is_alive = False
        for task in self.tasks:
            task.cancel()

    async def ended(self) -> None:
        """Wait until everything in it has unwound, after `kill`. What clings to life is told again and again."""
        while tasks := self.tasks:
            _, clinging = await asyncio.wait(tasks, timeout=1.0)
            for task in clinging:
                task.cancel()

    def require_alive(self) -> None:
        """Raises `ProcessEnded` where a dead process tries to act."""
        if not self.is_alive:
            raise ProcessEnded(f"{self.name} is dead")


def require_alive() -> None:
    """Raises `ProcessEnded` where the running code belongs to a process that is dead."""
    process = _process.get()
    if process is not None:
        process.require_alive()


def attempt_at_work() -> AttemptId | None:
    """The attempt that the running code works for, as far as it is known."""
    return _attempt.get()


def owned_task_factory(
    loop: asyncio.AbstractEventLoop, work: Any, *, context: Context | None = None
) -> asyncio.Task[Any]:
    """Makes tasks that belong to the process they are made in."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
    process = _process.get() if context is None else context.get(_process)
    if process is not None:
        process.adopt(task)
    return task
