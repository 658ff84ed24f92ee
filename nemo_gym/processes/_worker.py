"""One worker process of a pool: a forked child with a socket, running one job at a time.

The socket is registered with an event loop only during a job, so an idle worker belongs to no loop.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import weakref
from collections.abc import Sequence
from typing import Any

from nemo_gym.failures import VerifierError
from nemo_gym.processes import messages, worker_main
from nemo_gym.processes.fork_server import ForkServer
from nemo_gym.processes.own_time import OwnTime

IMPORT_TIMEOUT_S = 120.0
_ROUNDING_S = 0.001
_SHORTEST_WAIT_S = 0.02
_STARVED_FACTOR, _STARVED_S = 10.0, 60.0
"""A job that waits for cores fails when its wall-clock time exceeds this factor of its deadline, and these seconds."""


class Worker:
    """A child of `server` that runs `nemo_gym.processes.worker_main`."""

    def __init__(self, server: ForkServer, setup: Sequence[object]) -> None:
        """`setup` are the arguments of `worker_main.main`. Raises `OSError` if the fork server cannot run."""
        self._channel, theirs = socket.socketpair()
        weakref.finalize(self, self._channel.close)
        with theirs:
            self._process = server.fork(
                "worker",
                "nemo_gym.processes.worker_main:main",
                setup,
                descriptors={worker_main.CHANNEL_FD: theirs.fileno()},
            )
        self._channel.setblocking(False)
        self.pid: int | None = None
        """The pid of the worker; None before its first job."""

    async def call(self, job: bytes, name: str, timeout_s: float) -> tuple[str, Any]:
        """Run one job, the function `name`, and return the kind and the body of its answer.

        `timeout_s` is in the job's own time: it does not run while the job waits for a core. Raises `VerifierError`;
        after that, or after a cancellation, the worker must be ended.
        """
        try:
            async with asyncio.timeout(IMPORT_TIMEOUT_S):
                await asyncio.get_running_loop().sock_sendall(self._channel, job)
                kind, body = await messages.receive_async(self._channel)
            if kind == worker_main.STARTED:
                self.pid = body
                kind, body = await self._await_answer(name, timeout_s)
            return kind, body
        except TimeoutError as error:
            raise VerifierError(
                f"{name} took over {IMPORT_TIMEOUT_S:g} s to import in a worker.", code="verifier_timeout"
            ) from error
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            code, reason = await self._exit_reason()
            raise VerifierError(f"The worker that ran {name} died: {reason}.", code=code) from error

    async def _await_answer(self, name: str, timeout_s: float) -> tuple[str, Any]:
        assert self.pid is not None
        stopwatch, remaining_s = OwnTime(self.pid), timeout_s
        answer = asyncio.ensure_future(messages.receive_async(self._channel))
        try:
            while not answer.done():
                await asyncio.wait([answer], timeout=remaining_s)
                if not answer.done():
                    remaining_s = _compute_remaining(stopwatch, name, timeout_s)
            kind, body = await answer
            return kind, body
        finally:
            answer.cancel()
            await asyncio.wait([answer])  # the loop must have let go of the socket before it is closed

    def is_alive(self) -> bool:
        """Return whether an idle worker can take a job: its socket is open and empty."""
        try:
            self._channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        return False

    def kill(self) -> None:
        """Kill the process group. A running call fails."""
        self._process.signal(signal.SIGKILL)

    def end(self) -> None:
        """Kill the process and close its socket. Not during a call."""
        self.kill()
        self._channel.close()

    async def _exit_reason(self) -> tuple[str, str]:
        """Return the code and the reason of a failure."""
        self.kill()  # the job may have closed the socket without exiting
        try:
            code = await self._process.wait_for_end()
        except OSError as error:
            raise unavailable(error) from error
        if code == worker_main.OUT_OF_MEMORY_STATUS:
            return "verifier_out_of_memory", "it ran out of memory"
        if code < 0:
            return "verifier_crashed", f"{signal.Signals(-code).name} ended it"
        return "verifier_crashed", f"it exited with status {code}"


def _compute_remaining(stopwatch: OwnTime, name: str, timeout_s: float) -> float:
    """Return the seconds that a job still has. Raises VerifierError when there are none."""
    wall_s, (own_s, computing_s, is_runnable) = stopwatch.wall_s, stopwatch.read()
    # A virtual machine or a quota may withhold cores without counting it as a delay: CPU seconds decide.
    spent_s = computing_s if is_runnable else own_s
    if spent_s >= timeout_s - _ROUNDING_S:
        is_computing = is_runnable or computing_s >= own_s / 2
        how, code = ("", "verifier_timeout") if is_computing else (", blocked", "verifier_blocked")
        raise VerifierError(
            f"{name} ran over its deadline of {timeout_s:g} s{how}: {computing_s:.1f} s of CPU time.",
            code=code,
        )
    if wall_s >= _STARVED_FACTOR * timeout_s + _STARVED_S:
        raise VerifierError(
            f"{name} had {spent_s:.1f} of its {timeout_s:g} s within {wall_s:.0f} s: the machine is too busy.",
            code="verifier_starved",
            retryable=True,
            remedy="Run fewer processes on this machine.",
        )
    return max(_SHORTEST_WAIT_S, timeout_s - spent_s)


def unavailable(error: OSError) -> VerifierError:
    """The failure of a job whose worker could not be started."""
    return VerifierError(
        f"A verifier worker could not be started: {error}.", code="verifier_unavailable", retryable=True
    )
