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

    async def call(
        self, job: bytes, name: str, *, timeout_s: float, import_timeout_s: float
    ) -> tuple[str, Any]:
        """Run one job, the function `name`, and return the kind and the body of its answer.

        Raises `VerifierError`; after that, or after a cancellation, the worker must be ended.
        """
        overdue = f"took over {import_timeout_s:g} s to import in a worker"
        try:
            async with asyncio.timeout(import_timeout_s):
                await asyncio.get_running_loop().sock_sendall(self._channel, job)
                kind, body = await messages.receive_async(self._channel)
            if kind == worker_main.STARTED:
                self.pid, overdue = body, f"ran over its deadline of {timeout_s:g} s"
                async with asyncio.timeout(timeout_s):
                    kind, body = await messages.receive_async(self._channel)
            return kind, body
        except TimeoutError as error:
            raise VerifierError(f"{name} {overdue}.", code="verifier_timeout") from error
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            reason = await self._exit_reason()
            raise VerifierError(
                f"The worker that ran {name} died: {reason}.", code="verifier_crashed"
            ) from error

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

    async def _exit_reason(self) -> str:
        self.kill()  # the job may have closed the socket without exiting
        try:
            code = await self._process.ended()
        except OSError as error:
            raise unavailable(error) from error
        if code == worker_main.OUT_OF_MEMORY_STATUS:
            return "it ran out of memory"
        if code < 0:
            return f"{signal.Signals(-code).name} ended it"
        return f"it exited with status {code}"


def unavailable(error: OSError) -> VerifierError:
    """The failure of a job whose worker could not be started."""
    return VerifierError(
        f"A verifier worker could not be started: {error}.", code="verifier_unavailable", retryable=True
    )
