"""A function in a fresh interpreter, with a channel to it.

The program runs in a session of its own, so that Ctrl-C reaches its parent alone. It prints to its parent's standard
error. It has to end when its channel is closed or its parent is gone: a fork of the parent may keep the channel open.
A program with an event loop waits for that by `until_parent_ends`.
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

# -P: the current folder must not shadow modules. The folder of our own package comes last for the same reason.
_START = (
    "import sys; sys.path.append(sys.argv[1]); from nemo_gym.processes.program import run; run(*sys.argv[2:])"
)


class Program:
    """A running program. It is ended by `close`, when this object is collected, and when this process exits."""

    def __init__(
        self, target: str, *arguments: str, variables: Mapping[str, str] | None = None, grace_s: float
    ) -> None:
        """Start `target` ("module:function"), which gets the channel and the arguments.

        `variables` are added to its environment. Raises `OSError` when no process can be started.
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
        """Close the channel and wait for the program's end; it is killed after `grace_s`. Closing twice is fine."""

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send a message, from any thread. Raises `OSError` when the program is gone."""
        with self._lock:
            messages.send(self.channel, message, descriptors)


def run(descriptor: str, target: str, *arguments: str) -> None:
    """In the program: call `target` with the channel whose descriptor is given, and the arguments."""
    load(target)(socket.socket(fileno=int(descriptor)), *arguments)


def load(target: str) -> Callable[..., Any]:
    """The function that "module:function" names."""
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


async def until_parent_ends(channel: socket.socket) -> None:
    """In a program whose parent sends nothing more: return when the channel is closed or the parent is gone."""
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
        return  # in a fork of the owner, the program is not ours to end
    with contextlib.suppress(OSError):  # it has ended by itself
        channel.shutdown(socket.SHUT_RDWR)  # a fork may hold the channel too
    channel.close()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
