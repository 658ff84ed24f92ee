"""An event loop in its own thread, for blocking code; it also works inside a notebook's running event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, Final, Self, TypeVar, cast

from nemo_gym.failures import InputError

_T = TypeVar("_T")


class EventLoopThread:
    """`with EventLoopThread("name") as loop: loop.run(work())`. The thread ends with the block."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for the result of `work`. An exception in the waiting thread, such as KeyboardInterrupt, cancels it.

        Raises `InputError` after the end of the block.
        """
        if self._loop.is_closed():
            work.close()
            raise InputError(
                f"the {self._thread.name} has ended",
                code="ended",
                remedy="Use it within its `with` block.",
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, stream: AsyncGenerator[_T, None]) -> Generator[_T, None, None]:
        """Yield the items of `stream`, each requested when the consumer asks for it. Closing this closes `stream`."""
        taking: set[asyncio.Task[Any]] = set()
        try:
            while (item := self.run(_take_next(stream, taking))) is not _END:
                yield cast(_T, item)
        finally:
            if not sys.is_finalizing() and not self._loop.is_closed():
                self.run(_close(stream, taking))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if sys.is_finalizing():  # daemon threads are frozen, so joining one would hang
            return
        self.run(_end_all_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def run_blocking(name: str, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of `work`, which runs in an event loop of its own thread."""
    with EventLoopThread(name) as loop:
        return loop.run(work)


_END: Final = object()


async def _take_next(stream: AsyncGenerator[_T, None], taking: set[asyncio.Task[Any]]) -> _T | object:
    task = asyncio.current_task()
    assert task is not None
    taking.add(task)
    try:
        return await anext(stream, _END)
    finally:
        taking.discard(task)


async def _close(stream: AsyncGenerator[Any, None], taking: set[asyncio.Task[Any]]) -> None:
    await _end(set(taking))  # one that was interrupted still runs the stream
    await stream.aclose()


async def _end_all_tasks() -> None:
    task = asyncio.current_task()
    assert task is not None
    await _end(asyncio.all_tasks() - {task})


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if not task.cancelling():  # a second cancellation would interrupt its cleanup
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
