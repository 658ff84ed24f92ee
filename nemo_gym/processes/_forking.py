"""The inside of a fork server: a program that imports modules ahead and forks children that share them.

It stays single-threaded and runs no event loop, so that forking is safe. Its parent sends `ForkRequest`
and `Signal` messages. Every request brings a socket over which the child's pid (or the reason
why there is none) and later its exit code are told.

When the parent is gone, the server asks its children to end, kills after a grace what is left of them and of all that
they started, and ends. When the server is killed, the kernel kills the children.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nemo_gym.processes import messages
from nemo_gym.processes._ending import PARENT_CHECK_S, adopt_orphans, end_with_parent
from nemo_gym.processes.process_tree import kill, kill_group, tree_of
from nemo_gym.processes.program import load

GRACE_S = 1.0
"""Seconds between asking the children to end and killing them, when the parent is gone."""
_HANDLED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
"""Blocked from before a fork until the child has its own dispositions."""
_ABOVE_ASKED_NUMBERS = messages.MAX_DESCRIPTORS + 3


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A child to fork: a function to call, or a program to execute."""

    number: int
    """Names the child in signals."""
    title: str
    """Its name in `ps -o comm` and `top`, of which they show 15 bytes."""
    descriptors: Sequence[int]
    """The numbers that the descriptors beside this message have in the child."""
    target: str = ""
    """The function, as "module:function"."""
    arguments: Sequence[object] = ()
    command: Sequence[str] = ()
    """A program and its arguments, to execute in place of the function."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables to add."""


class Signal(NamedTuple):
    """A signal to send to the child `number`; SIGKILL goes to its whole process group."""

    number: int
    signal: int


@dataclass(frozen=True, slots=True)
class ForkedChild:
    """This process, just forked, on its way to what it was asked for."""

    request: ForkRequest
    descriptors: Sequence[int]
    parent_pid: int

    def run(self) -> None:
        """Leave everything of the server behind and do what was asked."""
        os.setsid()
        end_with_parent(self.parent_pid)
        with contextlib.suppress(OSError):
            Path("/proc/self/comm").write_text(self.request.title, encoding="utf-8")
        self._take_descriptors()
        self._take_signals()
        os.environ.update(self.request.variables)
        if self.request.command:
            os.execv(self.request.command[0], list(self.request.command))
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        load(self.request.target)(*self.request.arguments)

    def _take_descriptors(self) -> None:
        """Give the descriptors their numbers and close everything else of the server's."""
        signal.set_wakeup_fd(-1)
        moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE_ASKED_NUMBERS) for fd in self.descriptors]
        for fd in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - names are all that is needed
            if fd > 2 and fd not in moved:
                with contextlib.suppress(OSError):  # the listing's own, which is closed already
                    os.close(fd)
        for number, fd in zip(self.request.descriptors, moved, strict=True):
            os.dup2(fd, number)
            os.close(fd)

    def _take_signals(self) -> None:
        for number in _HANDLED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)


class ForkLoop:
    """Forks children on request, reaps them, and tells how they end."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._parent_pid = os.getppid()
        self._children: dict[int, tuple[int, socket.socket]] = {}
        """pid → number and status socket of the child."""
        self._is_ending = False
        self._wake_reader, wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(wake_writer, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end_soon)
        adopt_orphans()

    def serve(self) -> ForkedChild | None:
        """Obey until the parent is gone. Returns a `ForkedChild` in a child, None in the server itself."""
        channel_fd = self._channel.fileno()
        while not self._is_ending and os.getppid() == self._parent_pid:
            readable, _, _ = select.select([channel_fd, self._wake_reader], [], [], PARENT_CHECK_S)
            if self._wake_reader in readable:
                self._reap()
            if channel_fd in readable and (child := self._obey()) is not None:
                return child
        self._end_children()
        return None

    def _obey(self) -> ForkedChild | None:
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
                held.detach()  # the child closes their descriptors with all others
            return ForkedChild(request, descriptors, parent_pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)
        for descriptor in descriptors:
            os.close(descriptor)
        _tell(status, outcome)
        if isinstance(outcome, int):
            self._children[outcome] = request.number, status
        return None

    def _reap(self) -> None:
        """Collect every child that ended, end what is left of its process group, and tell its exit code."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_reader, 4096):
                pass
        with contextlib.suppress(ChildProcessError):  # there is no child at all
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, exit_status = ended
                kill_group(pid)  # its number is nobody else's as long as the group has a member
                _, status = self._children.pop(pid, (0, None))
                if status is not None:
                    _tell(status, os.waitstatus_to_exitcode(exit_status))

    def _end_soon(self, *_: object) -> None:
        self._is_ending = True

    def _end_children(self) -> None:
        """Ask every child to end, kill what is left after the grace, and whatever the children left behind."""
        for pid in self._children:
            _send(pid, signal.SIGTERM)
        give_up_at = time.monotonic() + GRACE_S
        while self._children and (left_s := give_up_at - time.monotonic()) > 0:
            select.select([self._wake_reader], [], [], left_s)
            self._reap()
        for pid in self._children:
            _send(pid, signal.SIGKILL)
        while left := list(tree_of(os.getpid())):
            for pid in left:
                kill(pid)
            os.waitpid(-1, 0)


def main(channel: socket.socket, preload: str) -> None:
    """Import the module `preload`, unless that is "", and serve the parent at the other end of `channel`."""
    loop = ForkLoop(channel)
    _import_ahead(preload)
    child = loop.serve()
    if child is not None:
        # Python's `random` seeds itself anew after a fork; nothing warm keeps other random state.
        child.run()


def _import_ahead(preload: str) -> None:
    """Import a module and set all objects apart from garbage collection, so that forks share them.

    A module that cannot be imported is no reason to stop: children start all the same, if slower, and the one that
    needs it says so itself.
    """
    gc.disable()
    if preload:
        try:
            importlib.import_module(preload)
        except ImportError as error:
            sys.stderr.write(f"{preload} cannot be imported ahead: {error}\n")
    sys.stdout.flush()  # what is left in the buffer would be printed by every child
    gc.enable()
    gc.collect()
    gc.freeze()


def _tell(status: socket.socket, message: int | str) -> None:
    with contextlib.suppress(
        BrokenPipeError, ConnectionResetError
    ):  # whoever forked the child has let go of it
        messages.send(status, message)


def _send(pid: int, number: int) -> None:
    """Signal a child that was not waited for yet; SIGKILL goes to its whole process group."""
    if number == signal.SIGKILL:
        kill_group(pid)
    os.kill(pid, number)
