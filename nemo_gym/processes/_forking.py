"""The main loop of a fork server: a program that preloads modules and forks children that share them.

It stays single-threaded and runs no event loop, so that forking is safe. Its parent sends `ForkRequest` and `Signal`
messages. Every request comes with a socket, to which the server writes the child's pid (or the reason why the fork
failed) and later its exit code.

When the parent ends, the server sends SIGTERM to its children, kills all remaining descendants after a grace period,
and ends. When the server is killed, the kernel kills the children.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nemo_gym.processes import messages
from nemo_gym.processes._ending import PARENT_CHECK_S, adopt_orphans, end_with_parent
from nemo_gym.processes.process_tree import kill, kill_group, list_descendants
from nemo_gym.processes.program import load

GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL to the children, after the parent has ended."""
_HANDLED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
"""Blocked from before a fork until the child has reset its handlers."""
_ABOVE_ASKED_NUMBERS = messages.MAX_DESCRIPTORS + 3


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A child to fork, which calls a function."""

    number: int
    """Identifies the child in signals."""
    title: str
    """Its name in `ps -o comm` and `top`, which show 15 bytes."""
    descriptors: Sequence[int]
    """The numbers in the child of the descriptors sent with this message."""
    target: str
    """The function, as "module:function"; `os:execv` executes a program."""
    arguments: Sequence[object]
    variables: Mapping[str, str]
    """Environment variables to add."""


class Signal(NamedTuple):
    """A signal to send to the child `number`; SIGKILL goes to its whole process group."""

    number: int
    signal: int


@dataclass(frozen=True, slots=True)
class ForkedChild:
    """The current process right after the fork."""

    request: ForkRequest
    descriptors: Sequence[int]
    parent_pid: int

    def run(self) -> None:
        """Drop the server's state and call the requested function."""
        os.setsid()
        end_with_parent(self.parent_pid)
        with contextlib.suppress(OSError):
            Path("/proc/self/comm").write_text(self.request.title, encoding="utf-8")
        self._take_descriptors()
        self._take_signals()
        os.environ.update(self.request.variables)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        load(self.request.target)(*self.request.arguments)

    def _take_descriptors(self) -> None:
        """Move the descriptors to their numbers and close all others."""
        signal.set_wakeup_fd(-1)
        moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE_ASKED_NUMBERS) for fd in self.descriptors]
        for fd in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - only names are needed
            if fd > 2 and fd not in moved:
                with contextlib.suppress(OSError):  # the descriptor of the listing itself, closed already
                    os.close(fd)
        for number, fd in zip(self.request.descriptors, moved, strict=True):
            os.dup2(fd, number)
            os.close(fd)

    def _take_signals(self) -> None:
        for number in _HANDLED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)


class ForkLoop:
    """Forks children on request, reaps them, and reports their exit codes."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._parent_pid = os.getppid()
        self._children: dict[int, tuple[int, socket.socket]] = {}
        """Pid → number and status socket of the child."""
        self._is_ending = False
        self._wake_reader, wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(wake_writer, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end_soon)
        adopt_orphans()

    def serve(self) -> ForkedChild | None:
        """Handle messages until the parent ends. Returns a `ForkedChild` in a child, None in the server itself."""
        channel_fd = self._channel.fileno()
        while not self._is_ending and os.getppid() == self._parent_pid:
            readable = _readable([channel_fd, self._wake_reader], PARENT_CHECK_S)
            if self._wake_reader in readable:
                self._reap()
            if channel_fd in readable and (child := self._handle_message()) is not None:
                return child
        self._end_children()
        return None

    def _handle_message(self) -> ForkedChild | None:
        try:
            message, received = messages.receive_with_descriptors(self._channel)
        except EOFError:
            self._is_ending = True
            return None
        if isinstance(message, Signal):
            for pid, (number, _) in self._children.items():
                if number == message.number:
                    _send(pid, message.signal)
            return None
        status, *descriptors = received
        return self._fork(message, socket.socket(fileno=status), descriptors)

    def _fork(
        self, request: ForkRequest, status: socket.socket, descriptors: Sequence[int]
    ) -> ForkedChild | None:
        parent_pid = os.getpid()
        # A signal between the fork and the child's own handlers would write into the server's pipe.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_SIGNALS)
        try:
            outcome: int | str = os.fork()
        except OSError as error:
            outcome = error.strerror or str(error)
        if outcome == 0:
            for held in (self._channel, status, *(each for _, each in self._children.values())):
                held.detach()  # the child closes all descriptors at once
            return ForkedChild(request, descriptors, parent_pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)
        for descriptor in descriptors:
            os.close(descriptor)
        _report(status, outcome)
        if isinstance(outcome, int):
            self._children[outcome] = request.number, status
        return None

    def _reap(self) -> None:
        """Reap every ended child, kill the rest of its process group, and report its exit code."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_reader, 4096):
                pass
        with contextlib.suppress(ChildProcessError):  # there are no children
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, exit_status = ended
                kill_group(pid)  # the pid cannot be reused while the group has a member
                _, status = self._children.pop(pid, (0, None))
                if status is not None:
                    _report(status, os.waitstatus_to_exitcode(exit_status))

    def _end_soon(self, *_: object) -> None:
        self._is_ending = True

    def _end_children(self) -> None:
        """Send SIGTERM to every child, and kill all remaining descendants after the grace period."""
        for pid in self._children:
            _send(pid, signal.SIGTERM)
        give_up_at = time.monotonic() + GRACE_S
        while self._children and (left_s := give_up_at - time.monotonic()) > 0:
            _readable([self._wake_reader], left_s)
            self._reap()
        for pid in self._children:
            _send(pid, signal.SIGKILL)
        while left := list(list_descendants(os.getpid())):
            for pid in left:
                kill(pid)
            os.waitpid(-1, 0)


def _readable(descriptors: Sequence[int], seconds: float) -> list[int]:
    """Return the descriptors that can be read, at most `seconds` later. `select` takes no descriptor above 1,023."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]


def main(channel: socket.socket, preload: str) -> None:
    """Import the module `preload`, unless it is "", and serve the parent at the other end of `channel`."""
    loop = ForkLoop(channel)
    _preload(preload)
    child = loop.serve()
    if child is not None:
        # Python reseeds `random` after a fork; no preloaded module keeps other random state.
        child.run()


def _preload(preload: str) -> None:
    """Import a module and exclude all objects from garbage collection, so that forks share their pages.

    A failed import is only logged: a child that needs the module fails with its own error. Garbage stays: imports leave
    little, and to collect it would take 7 % of their time.
    """
    gc.disable()
    if preload:
        try:
            importlib.import_module(preload)
        except ImportError as error:
            sys.stderr.write(f"{preload} cannot be preloaded: {error}\n")
    sys.stdout.flush()  # every child would print the rest of the buffer
    gc.freeze()
    gc.enable()


def _report(status: socket.socket, message: int | str) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the requester has closed its end
        messages.send(status, message)


def _send(pid: int, number: int) -> None:
    """Signal a child that is not reaped yet; SIGKILL goes to its whole process group."""
    if number == signal.SIGKILL:
        kill_group(pid)
    os.kill(pid, number)
