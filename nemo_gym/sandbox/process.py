"""One confined program: its streams, its lifetime, and the end of its whole process tree.

The program is untrusted: its output is bounded, and its lifetime is enforced from here. `ending` holds the reason if
it was killed.

asyncio's own subprocesses are not used: they report the end only when every pipe is closed, which an escaped
descendant can prevent, and a cancelled start can hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from nemo_gym.failures import VerifierError
from nemo_gym.processes.process_tree import kill, kill_all_of_user, kill_group, resident_bytes, tree_of
from nemo_gym.sandbox.isolation import IsolationKind, Launch, SandboxLimits

_CHUNK_BYTES = 64 * 1024
_WATCH_INTERVAL_S = 0.1
_DRAIN_S = 0.2
_FAREWELL_S = 0.5
_POLL_INTERVAL_S = 0.01
_REAP_TIMEOUT_S = 5.0


class Ending(StrEnum):
    """The way in which a program ended."""

    EXITED = "exited"
    """It exited, or a signal from elsewhere ended it."""
    TIMED_OUT = "timed_out"
    OUTPUT_EXCEEDED = "output_exceeded"
    MEMORY_EXCEEDED = "memory_exceeded"
    """All its processes together exceeded the limit. A single process gets an allocation error instead."""
    STOPPED = "stopped"
    """The gym stopped it."""


class ProgramOutput(NamedTuple):
    """The bytes that a program printed, up to its limit."""

    stdout: bytes
    stderr: bytes


class SandboxedProcess:
    """A running program. Made by `ConfinedRunner.open`, which also closes it."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        stdin: socket.socket | None,
        launch: Launch,
        kind: IsolationKind,
        limits: SandboxLimits,
    ) -> None:
        self.isolation = kind
        self.ending = Ending.EXITED
        self._popen, self._stdin, self._user, self._limits = popen, stdin, launch.user, limits
        self._stdout = asyncio.StreamReader(limit=limits.output_bytes)
        self._stderr_stream = asyncio.StreamReader()
        self._stderr = bytearray()
        self._pipes: list[asyncio.ReadTransport] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._printed = 0
        self._is_killed = False
        self._exited = asyncio.create_task(_exit_of(popen))
        self._lifetime = asyncio.get_running_loop().call_later(limits.wall_s, self.kill, Ending.TIMED_OUT)

    async def connect(self) -> None:
        """Start reading its output."""
        for stream, pipe in ((self._stdout, self._popen.stdout), (self._stderr_stream, self._popen.stderr)):
            assert pipe is not None
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda stream=stream: asyncio.StreamReaderProtocol(stream),  # type: ignore[misc]
                pipe,
            )
            self._pipes.append(transport)
        self._tasks += (
            asyncio.create_task(self._collect(self._stderr_stream, self._stderr)),
            asyncio.create_task(self._watch()),
        )

    @property
    def pid(self) -> int:
        """The pid of the process that confines the program."""
        return self._popen.pid

    @property
    def exit_status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._popen.returncode

    @property
    def stderr(self) -> bytes:
        """The bytes it has printed to standard error so far."""
        return bytes(self._stderr)

    async def send(self, data: bytes, timeout_s: float | None = None) -> None:
        """Write to its standard input; it is killed if it does not read in time. An earlier end is not an error."""
        assert self._stdin is not None
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().sock_sendall(self._stdin, data)
        except TimeoutError:
            self.kill(Ending.TIMED_OUT)
        except (BrokenPipeError, ConnectionResetError):
            pass

    async def read_line(self, timeout_s: float | None = None) -> bytes | None:
        """The next line of its standard output; None if it ended, or was killed for delay or excess output."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._stdout.readuntil(b"\n")
        except TimeoutError:
            self.kill(Ending.TIMED_OUT)
        except asyncio.LimitOverrunError:
            self.kill(Ending.OUTPUT_EXCEEDED)
        except asyncio.IncompleteReadError:
            # It ended, or it closed its output and still runs.
            await asyncio.wait((self._exited,), timeout=_FAREWELL_S)
            self.kill(Ending.STOPPED)
        await self.wait()
        return None

    async def read_all(self) -> ProgramOutput:
        """Read its output until it ends."""
        stdout = bytearray()
        reading = asyncio.create_task(self._collect(self._stdout, stdout))
        try:
            await self.wait()
            await asyncio.gather(reading, self._tasks[0])
        finally:
            reading.cancel()
        return ProgramOutput(bytes(stdout), self.stderr)

    async def wait(self) -> None:
        """Wait for the end of the program, at most `wall_s`."""
        await asyncio.shield(self._exited)

    def kill(self, ending: Ending) -> None:
        """Kill the program and all its descendants."""
        if self._is_killed:
            return
        self._is_killed = True
        if self._popen.returncode is None:
            self.ending = ending
            for pid in (*tree_of(self._popen.pid), self._popen.pid):
                kill(pid)
        self._kill_group()

    async def close(self) -> None:
        """Kill all remaining processes and release streams and tasks."""
        self._lifetime.cancel()
        self.kill(Ending.STOPPED)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._close_streams()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REAP_TIMEOUT_S):
                await self.wait()
        if self.isolation is IsolationKind.PROCESS and self._user is not None:
            await asyncio.to_thread(kill_all_of_user, self._user)

    async def _collect(self, stream: asyncio.StreamReader, into: bytearray) -> None:
        while chunk := await stream.read(_CHUNK_BYTES):
            room = self._limits.output_bytes - self._printed
            self._printed += len(chunk)
            into += chunk[: max(room, 0)]
            if self._printed > self._limits.output_bytes:
                self.kill(Ending.OUTPUT_EXCEEDED)
                return

    async def _watch(self) -> None:
        """Enforce the memory limit while it runs; after its end, kill descendants that hold its pipes."""
        while not self._exited.done():
            await asyncio.wait((self._exited,), timeout=_WATCH_INTERVAL_S)
            if not self._exited.done():
                tree = (self._popen.pid, *tree_of(self._popen.pid))
                if sum(map(resident_bytes, tree)) > self._limits.memory_bytes:
                    self.kill(Ending.MEMORY_EXCEEDED)
        self._kill_group()
        await asyncio.sleep(_DRAIN_S)
        self._close_streams()

    def _kill_group(self) -> None:
        # A pid namespace dies with its first process; without one, the process group is killed.
        if self.isolation is IsolationKind.PROCESS:
            kill_group(self._popen.pid)

    def _close_streams(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        # A connected pipe is closed by its transport.
        for unconnected in (self._popen.stdout, self._popen.stderr)[len(self._pipes) :]:
            assert unconnected is not None
            unconnected.close()
        if self._stdin is not None:
            self._stdin.close()


async def start_process(
    launch: Launch,
    kind: IsolationKind,
    limits: SandboxLimits,
    *,
    stdin: bytes | None,
    environment: Mapping[str, str],
    folder: Path | None,
) -> SandboxedProcess:
    """Start a confined program. `stdin` is its whole input; None opens a stream for `send`.

    Raises VerifierError if it cannot be started.
    """
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        talk = None
        if stdin is None:
            talk, other = socket.socketpair()
            ours.enter_context(talk).setblocking(False)
            source = theirs.enter_context(other).fileno()
        else:
            source = _file_of(stdin, launch.user)
            theirs.callback(os.close, source)
        try:
            popen = _spawn(launch.command, source, environment, folder)
        except OSError as error:
            raise VerifierError(
                f"A confined program could not be started: {error}.", code="sandbox_failed", retryable=True
            ) from error
        ours.pop_all()
    process = SandboxedProcess(popen, talk, launch, kind, limits)
    try:
        await process.connect()
    except BaseException:
        await process.close()
        raise
    return process


def _file_of(data: bytes, user: int | None) -> int:
    """Create an in-memory file with `data` as a program's input. bash treats a socket as a remote login."""
    file = os.memfd_create("stdin")
    with open(file, "wb", closefd=False) as writer:
        writer.write(data)
    os.lseek(file, 0, os.SEEK_SET)
    if user is not None:
        os.fchown(file, user, user)
    return file


def _spawn(
    command: Sequence[str], stdin: int, environment: Mapping[str, str], folder: Path | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=dict(environment),
        cwd=folder or "/",
        start_new_session=True,
    )


async def _exit_of(popen: subprocess.Popen[bytes]) -> None:
    """Wait until a process exits, and reap it."""
    try:
        watched = os.pidfd_open(popen.pid)
    except OSError:  # an old kernel
        while popen.poll() is None:  # noqa: ASYNC110 - old kernels have no event for it
            await asyncio.sleep(_POLL_INTERVAL_S)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(watched, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)
        popen.poll()
