"""A fork server as its parent sees it: started as early as possible, asked for children later.

Importing the server stack costs over a second of CPU. A fork server imports it on another core while its parent reads
the configuration; every child is then a fork that shares those pages.

The standard library's fork server will not do: every child inherits the descriptor by whose closing that server
notices the end of its parent, so both go on when the parent is killed (seen with Python 3.11 to 3.13). It also reaps
a child without a word to its process group, and a process has one list of preloaded modules.

This module is the first that a command imports, so it imports next to nothing itself.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
import threading
import weakref
from collections.abc import Mapping, Sequence

from nemo_gym.processes import messages
from nemo_gym.processes._forking import GRACE_S, ForkRequest, Signal
from nemo_gym.processes.program import Program

_EXIT_GRACE_S = GRACE_S + 1.0
"""Seconds that a fork server has for ending what is left of its children before it is killed."""
_numbers = itertools.count(1)


class ForkServerGone(ChildProcessError):
    """The fork server ended before it forked the child."""

    def __init__(self) -> None:
        super().__init__("the process that others are forked from is gone")


class ForkedProcess:
    """A child of a fork server. One task at a time may wait for it."""

    def __init__(self, number: int, status: socket.socket, server: Program) -> None:
        self._number = number
        self._status = status
        self._status.setblocking(False)
        weakref.finalize(self, status.close)
        self._server = server
        self._pid: int | None = None
        self._code: int | None = None

    async def started(self) -> int:
        """Its pid. Raises `ChildProcessError` when it could not be forked, `ForkServerGone` among them."""
        if self._pid is None:
            try:
                told = await messages.receive_async(self._status)
            except EOFError as error:
                raise ForkServerGone() from error
            if isinstance(told, str):
                raise ChildProcessError(f"no process could be forked: {told}")
            self._pid = told
        assert self._pid is not None
        return self._pid

    async def ended(self) -> int:
        """Its exit code once it has ended, negative for a signal. Raises as `started` does."""
        await self.started()
        if self._code is None:
            try:
                self._code = await messages.receive_async(self._status)
            except EOFError:
                self._code = -signal.SIGKILL  # its server is gone, so the kernel killed it
        assert self._code is not None
        return self._code

    def signal(self, number: int) -> None:
        """Signal it unless it has ended; SIGKILL goes to its whole process group."""
        with contextlib.suppress(OSError):  # without its server it is dead already
            self._server.send(Signal(self._number, number))


class ForkServer:
    """Forks children on request, from any thread. Closing it ends them all.

    A fork server that dies takes its children with it; the next request starts another.
    """

    def __init__(self, preload: str = "", *, variables: Mapping[str, str] | None = None) -> None:
        """The module `preload` is imported before the first fork; `variables` are added to the environment."""
        self._preload = preload
        self._variables = variables
        self._program: Program | None = None
        self._has_forked = False
        self._is_closed = False
        self._lock = threading.Lock()

    def start(self) -> int:
        """Have the server run, and give its pid; it warms up while the caller goes on. Raises `OSError`."""
        return self._running().process.pid

    def fork(
        self,
        title: str,
        target: str = "",
        arguments: Sequence[object] = (),
        *,
        command: Sequence[str] = (),
        descriptors: Mapping[int, int],
        variables: Mapping[str, str] | None = None,
    ) -> ForkedProcess:
        """A child that calls `target` with `arguments`, or executes `command`; it may not have begun yet.

        `descriptors` are what it gets of ours: its number of each → ours. The rest is as in `ForkRequest`. Raises
        `OSError` when there is no server to ask.
        """
        request = ForkRequest(
            next(_numbers), title, list(descriptors), target, arguments, command, variables or {}
        )
        program = self._running()
        self._has_forked = True
        ours, theirs = socket.socketpair()
        with theirs:
            sent = request, [theirs.fileno(), *descriptors.values()]
            try:
                program.send(*sent)
            except (BrokenPipeError, ConnectionResetError):  # it died this moment
                program.close()
                program = self._running()
                program.send(*sent)
        return ForkedProcess(request.number, ours, program)

    def close(self) -> None:
        """End the server and wait for it: with children it takes up to its grace, without them milliseconds."""
        with self._lock:
            self._is_closed = True
            if self._program is None:
                return
            if not self._has_forked:
                self._program.process.kill()  # it may be warming up still, and would not notice
            self._program.close()

    def _running(self) -> Program:
        with self._lock:
            if self._is_closed:
                raise ForkServerGone()
            if self._program is None or self._program.process.poll() is not None:
                self._program = Program(
                    "nemo_gym.processes._forking:main",
                    self._preload,
                    variables=self._variables,
                    grace_s=_EXIT_GRACE_S,
                )
            return self._program
