"""The parent's side of a fork server, which is started early and forks children on request.

Importing the server stack costs over a second of CPU. A fork server imports it on another core while its parent reads
the configuration; every child is then a fork that shares those pages.

The standard library's fork server does not fit. Its children inherit the descriptor whose closing signals the end of
the parent, so both survive when the parent is killed (seen with Python 3.11 to 3.13). It also ignores the process
group of an ended child, and a process has only one list of preloaded modules.

Commands import this module first, so it imports almost nothing itself.
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
"""Seconds that a fork server has to end its children before it is killed."""
_numbers = itertools.count(1)


class ForkServerGone(ChildProcessError):
    """The fork server ended before it forked the child."""

    def __init__(self) -> None:
        super().__init__("the fork server has ended")


class ForkedProcess:
    """A child of a fork server. Only one task at a time may await it."""

    def __init__(self, number: int, status: socket.socket, server: Program) -> None:
        self._number = number
        self._status = status
        self._status.setblocking(False)
        weakref.finalize(self, status.close)
        self._server = server
        self._pid: int | None = None
        self._code: int | None = None

    async def wait_for_start(self) -> int:
        """Wait for its pid. Raises `ChildProcessError` if the fork failed, `ForkServerGone` if the server ended."""
        if self._pid is None:
            try:
                reply = await messages.receive_async(self._status)
            except EOFError as error:
                raise ForkServerGone() from error
            if isinstance(reply, str):
                raise ChildProcessError(f"no process could be forked: {reply}")
            self._pid = reply
        assert self._pid is not None
        return self._pid

    async def wait_for_end(self) -> int:
        """Wait for its exit code, negative for a signal. Raises as `started` does."""
        await self.wait_for_start()
        if self._code is None:
            try:
                self._code = await messages.receive_async(self._status)
            except EOFError:
                self._code = -signal.SIGKILL  # the server has ended, so the kernel killed the child
        assert self._code is not None
        return self._code

    def signal(self, number: int) -> None:
        """Signal it if it still runs; SIGKILL goes to its whole process group."""
        with contextlib.suppress(OSError):  # the server has ended, and its children with it
            self._server.send(Signal(self._number, number))


class ForkServer:
    """Forks children on request, from any thread. Closing it ends them all.

    Children die with their fork server; the next request starts a new one.
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
        """Start the server if it does not run, and return its pid; it preloads in parallel. Raises `OSError`."""
        return self._ensure_running().process.pid

    def fork(
        self,
        title: str,
        target: str,
        arguments: Sequence[object] = (),
        *,
        descriptors: Mapping[int, int],
        variables: Mapping[str, str] | None = None,
    ) -> ForkedProcess:
        """Request a child that calls `target` with `arguments`; `os:execv` executes a program.

        `descriptors` maps descriptor numbers in the child to ours. The rest is as in `ForkRequest`. Raises `OSError`
        if no server can run.
        """
        request = ForkRequest(next(_numbers), title, list(descriptors), target, arguments, variables or {})
        program = self._ensure_running()
        self._has_forked = True
        ours, theirs = socket.socketpair()
        with theirs:
            sent = request, [theirs.fileno(), *descriptors.values()]
            try:
                program.send(*sent)
            except (BrokenPipeError, ConnectionResetError):  # it has just died
                program.close()
                program = self._ensure_running()
                program.send(*sent)
        return ForkedProcess(request.number, ours, program)

    def close(self) -> None:
        """End the server and wait for it: up to its grace period with children, milliseconds without."""
        with self._lock:
            self._is_closed = True
            if self._program is None:
                return
            if not self._has_forked:
                self._program.process.kill()  # a server that still preloads does not react
            self._program.close()

    def _ensure_running(self) -> Program:
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
