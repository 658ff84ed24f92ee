"""Asynchronous work in blocking code."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator

import pytest

from nemo_gym.failures import InputError
from nemo_gym.processes.event_loop_thread import EventLoopThread


class Numbers:
    """A stream of numbers that records its closing."""

    def __init__(self) -> None:
        self.made = 0
        self.is_closed = False

    async def stream(self, count: int) -> AsyncGenerator[int, None]:
        try:
            while self.made < count:
                await asyncio.sleep(0)
                self.made += 1
                yield self.made
        finally:
            await asyncio.sleep(0)
            self.is_closed = True


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise ValueError("no")


def test_work_gives_its_result_or_raises_its_error() -> None:
    with EventLoopThread("test") as loop:
        assert loop.run(double(2)) == 4
        with pytest.raises(ValueError, match="no"):
            loop.run(fail())


async def test_it_works_inside_a_running_event_loop() -> None:
    with EventLoopThread("test") as loop:
        assert loop.run(double(2)) == 4


def test_the_thread_ends_with_the_block() -> None:
    with EventLoopThread("the one"):
        assert "the one" in {thread.name for thread in threading.enumerate()}
    assert "the one" not in {thread.name for thread in threading.enumerate()}


def test_a_stream_is_read_on_demand_and_closed() -> None:
    numbers = Numbers()
    with EventLoopThread("test") as loop:
        items = loop.iterate(numbers.stream(100))
        assert [next(items), next(items)] == [1, 2]
        assert numbers.made == 2
        items.close()
        assert numbers.is_closed
    numbers = Numbers()
    with EventLoopThread("test") as loop:
        assert list(loop.iterate(numbers.stream(3))) == [1, 2, 3]
    assert numbers.is_closed


def test_a_reader_that_leaves_a_stream_does_not_disturb_other_threads() -> None:
    started, answers = threading.Event(), list[int]()

    async def wait(go_on: asyncio.Event) -> int:
        started.set()
        await go_on.wait()
        return 7

    async def set_event(event: asyncio.Event) -> None:
        event.set()

    with EventLoopThread("test") as loop:
        go_on = asyncio.Event()
        other = threading.Thread(target=lambda: answers.append(loop.run(wait(go_on))))
        other.start()
        started.wait()
        items = loop.iterate(Numbers().stream(100))
        next(items)
        items.close()
        loop.run(set_event(go_on))
        other.join()
    assert answers == [7]


def test_after_its_block_it_refuses_work() -> None:
    with EventLoopThread("rollout session") as loop:
        items = loop.iterate(Numbers().stream(100))
        next(items)
    with pytest.raises(InputError, match="the rollout session has ended"):
        loop.run(double(2))
    items.close()


def test_an_interrupted_reader_closes_the_stream() -> None:
    """Raise the exception in the waiting thread in the middle of an item, as Ctrl-C does."""
    program = """
import asyncio, os, signal, threading
from nemo_gym.processes.event_loop_thread import EventLoopThread

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

async def stream():
    try:
        yield 1
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
        await asyncio.sleep(60)
        yield 2
    finally:
        await asyncio.sleep(0)
        print("closed")

try:
    with EventLoopThread("test") as loop:
        for item in loop.iterate(stream()):
            print(item)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(program) == ["1", "closed", "interrupted"]


def test_an_unfinished_stream_does_not_block_the_end_of_the_program() -> None:
    program = """
from nemo_gym.processes.event_loop_thread import EventLoopThread

async def stream():
    yield 1
    yield 2

def items():
    with EventLoopThread("test") as loop:
        yield from loop.iterate(stream())

kept = items()
print(next(kept))
"""
    assert run(program) == ["1"]


def run(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()
