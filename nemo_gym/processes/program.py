"""A function in a fresh interpreter, with a channel to it.

The program runs in its own session, so that Ctrl-C reaches only its parent. It prints to its parent's standard error.
It must end when its channel is closed or its parent has ended; a fork of the parent may keep the channel open. A
program with an event loop awaits this with `wait_until_parent_ends`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nemo_gym import PARENT_DIR
from nemo_gym.processes import messages
from nemo_gym.processes._ending import PARENT_CHECK_S

# -P: the current folder must not shadow modules. The folder of this package comes last for the same reason.
_START = (
    "import sys; sys.path.append(sys.argv[1]); from nemo_gym.processes.program import run; run(*sys.argv[2:])"
)


class Program:
    """A running program. It is ended by `close`, by garbage collection of this object, and at exit."""

    def __init__(
        self, target: str, *arguments: str, variables: Mapping[str, str] | None = None, grace_s: float
    ) -> None:
        """Start `target` ("module:function") with the channel and the arguments.

        `variables` are added to its environment. Raises `OSError` if no process can be started.
        """
        self.channel, theirs = socket.socketpair()
        self._lock = threading.Lock()
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-c",
                    _START,
                    str(PARENT_DIR),
                    str(theirs.fileno()),
                    target,
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **(variables or {})},
                start_new_session=True,
            )
        self.close: Callable[[], object] = weakref.finalize(
            self, _end, self.process, self.channel, grace_s, os.getpid()
        )
        """Close the channel and wait for the program's end; it is killed after `grace_s`. Idempotent."""

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send a message, from any thread. Raises `OSError` if the program has ended."""
        with self._lock:
            messages.send(self.channel, message, descriptors)


def run(descriptor: str, target: str, *arguments: str) -> None:
    """In the program: call `target` with the channel at `descriptor` and the arguments."""
    load(target)(socket.socket(fileno=int(descriptor)), *arguments)


def load(target: str) -> Callable[..., Any]:
    """Import the function named "module:function"."""
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


async def wait_until_parent_ends(channel: socket.socket) -> None:
    """Wait until the channel is closed or the parent has ended; the parent must send nothing more."""
    import asyncio

    parent_pid, closed = os.getppid(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(channel.fileno(), closed.set)
    try:
        while not closed.is_set() and os.getppid() == parent_pid:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(closed.wait(), PARENT_CHECK_S)
    finally:
        loop.remove_reader(channel.fileno())


def _end(process: subprocess.Popen[bytes], channel: socket.socket, grace_s: float, owner_pid: int) -> None:
    if os.getpid() != owner_pid:
        return  # a fork of the owner must not end the program
    with contextlib.suppress(OSError):  # it has ended already
        channel.shutdown(socket.SHUT_RDWR)  # a fork may hold the channel open
    channel.close()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
