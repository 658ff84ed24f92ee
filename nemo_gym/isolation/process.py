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
import time
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from nemo_gym.failures import VerifierError
from nemo_gym.isolation.confinement import Launch
from nemo_gym.isolation.memory_count import (
    available_memory,
    count_descriptors,
    count_memory,
    count_uncharged,
    total_memory,
)
from nemo_gym.isolation.time_limits import CpuLimit, Ending, ProgramTimes, TimeLimit, WallLimit
from nemo_gym.processes.process_tree import kill, list_descendants

T = TypeVar("T")

_CHUNK_BYTES = 64 * 1024
_WATCH_INTERVAL_S = 0.1
_WATCH_SHARE = 0.05
"""The part of a core that the looks at one program may take."""
_LONG_WATCH_INTERVAL_S = 1.0
"""Looks at descriptors and at files on disk, which take longest, are rarer."""
_LEAST_AVAILABLE = 0.05
"""The part of this machine's memory that stays free of confined programs."""
_DRAIN_S = 0.2
_FAREWELL_S = 0.5
_POLL_INTERVAL_S = 0.01
_REAP_TIMEOUT_S = 5.0


class _TooLate(Exception):
    """The program answered after it had used more CPU time than it may."""


class ProgramOutput(NamedTuple):
    """The bytes that a program printed, up to its limit."""

    stdout: bytes
    stderr: bytes


class SandboxedProcess:
    """A running program. Made by `ConfinedRunner.open`, which also closes it."""

    def __init__(self, popen: subprocess.Popen[bytes], stdin: socket.socket | None, launch: Launch) -> None:
        limits = launch.limits
        self.isolation = launch.kind
        self.ending = Ending.EXITED
        self._popen, self._stdin, self._launch, self._limits = popen, stdin, launch, limits
        self._stdout = asyncio.StreamReader(limit=limits.output_bytes)
        self._stderr_stream = asyncio.StreamReader()
        self._stderr = bytearray()
        self._pipes: list[asyncio.ReadTransport] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._printed = 0
        self._is_killed = False
        self._available_at_start = available_memory()
        self._exited = asyncio.create_task(self._exit())
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

    def has_lost_process_to_memory(self) -> bool:
        """Return whether the kernel has killed one of its processes for the memory limit, as it does in a cgroup."""
        return self._launch.memory is not None and self._launch.memory.is_exceeded()

    def refuse_machine_fault(self) -> None:
        """Raise VerifierError if the machine, and not the program, is at fault for its end."""
        if self.ending is Ending.STARVED:
            raise VerifierError(
                "Other programs of this machine kept a program from the CPU until its time was over.",
                code="sandbox_starved",
                retryable=True,
                remedy="Lower num_processes, or run less beside the gym.",
            )
        if self.ending is Ending.CROWDED_OUT:
            raise VerifierError(
                "A confined program was ended, because this machine has hardly any memory left.",
                code="sandbox_crowded_out",
                retryable=True,
                remedy="Run less beside the gym.",
            )

    def cpu_limit(self, cpu_s: float) -> CpuLimit:
        """A limit on its CPU time from now on."""
        group = self._launch.memory
        times = ProgramTimes(self._pids) if group is None else ProgramTimes(self._pids, group.cpu_s)
        return CpuLimit(cpu_s, times.read)

    async def send(self, data: bytes, limit: TimeLimit | float | None = None) -> None:
        """Write to its standard input; it is killed if it does not read in time. An earlier end is not an error."""
        assert self._stdin is not None
        sending = asyncio.get_running_loop().sock_sendall(self._stdin, data)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, _TooLate):
            await self._work_within(limit, sending)

    async def read_line(self, limit: TimeLimit | float | None = None) -> bytes | None:
        """The next line of its standard output; None if it ended, or was killed for delay or excess output.

        A `limit` in seconds is one of the clock.
        """
        try:
            return await self._work_within(limit, self._stdout.readuntil(b"\n"))
        except _TooLate:
            pass
        except asyncio.LimitOverrunError:
            self.kill(Ending.OUTPUT_EXCEEDED)
        except asyncio.IncompleteReadError:
            # It ended, or it closed its output and still runs.
            await asyncio.wait((self._exited,), timeout=_FAREWELL_S)
            self.kill(Ending.STOPPED)
        await self.wait()
        return None

    async def _work_within(self, limit: TimeLimit | float | None, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` that needs the program's cooperation. At its limit the program is killed, which ends the work."""
        if isinstance(limit, float | int):
            limit = WallLimit(limit)
        if limit is None:
            return await work
        began, waited_s, task = time.monotonic(), 0.0, asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=limit.next_check_s(waited_s))
                waited_s = time.monotonic() - began
                ending = limit.check(waited_s, has_answered=task.done())
                if ending is not None:
                    self.kill(ending)
                    if task.done():
                        raise _TooLate
            limit.settle(waited_s)
            return await task
        finally:
            task.cancel()

    async def read_all(self, limit: TimeLimit | None = None) -> ProgramOutput:
        """Read its output until it ends, or is killed at the limit."""
        stdout = bytearray()
        reading = asyncio.create_task(self._collect(self._stdout, stdout))
        try:
            with contextlib.suppress(_TooLate):
                await self._work_within(limit, self.wait())
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
            if self._launch.control is None:
                # bubblewrap's process namespace ends with its first process.
                for pid in self._pids():
                    kill(pid)
        self._launch.end()

    async def close(self) -> None:
        """Kill all remaining processes and release streams, tasks and everything that the program owned."""
        self._lifetime.cancel()
        self.kill(Ending.STOPPED)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._close_streams()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REAP_TIMEOUT_S):
                await self.wait()
        await asyncio.to_thread(self._launch.close)

    def _pids(self) -> list[int]:
        """All its processes. The tree starts at the process that confines it."""
        return [*list_descendants(self._popen.pid), self._popen.pid]

    async def _exit(self) -> None:
        await _wait_for_exit(self._popen)
        # `close` may come between the end of the program and this line: the kernel's kill is the cause all the same.
        if self.ending in (Ending.EXITED, Ending.STOPPED) and self.has_lost_process_to_memory():
            self.ending = Ending.MEMORY_EXCEEDED

    async def _collect(self, stream: asyncio.StreamReader, into: bytearray) -> None:
        while chunk := await stream.read(_CHUNK_BYTES):
            room = self._limits.output_bytes - self._printed
            self._printed += len(chunk)
            into += chunk[: max(room, 0)]
            if self._printed > self._limits.output_bytes:
                self.kill(Ending.OUTPUT_EXCEEDED)
                return

    async def _watch(self) -> None:
        """Enforce the memory limit while it runs; after its end, stop reading from descendants that hold its pipes."""
        wait_s, ending = _WATCH_INTERVAL_S, None
        has_group = self._launch.memory is not None
        long_look_at = time.monotonic() + _LONG_WATCH_INTERVAL_S * has_group
        while not self._exited.done():
            await asyncio.wait((self._exited,), timeout=wait_s)
            if self._exited.done():
                break
            is_long = time.monotonic() >= long_look_at
            if self.has_lost_process_to_memory():
                ending = Ending.MEMORY_EXCEEDED
            elif is_long or not has_group:
                ending, cost_s = await asyncio.to_thread(self._look, is_long)
                pause_s = cost_s / _WATCH_SHARE
                if is_long:
                    long_look_at = time.monotonic() + max(_LONG_WATCH_INTERVAL_S, pause_s)
                else:
                    wait_s = max(_WATCH_INTERVAL_S, pause_s)
            if ending is not None:
                self.kill(ending)
        await asyncio.sleep(_DRAIN_S)
        self._close_streams()

    def _look(self, is_long: bool) -> tuple[Ending | None, float]:
        """The reason to end the program for its memory or files, and the CPU seconds that it took to find out."""
        began = time.thread_time()
        ending = self._find_excess(is_long)
        if is_long and ending is None and self._launch.has_too_many_files():
            ending = Ending.OUTPUT_EXCEEDED
        return ending, time.thread_time() - began

    def _find_excess(self, is_long: bool) -> Ending | None:
        """The reason to end the program for memory that no cgroup counts."""
        most, pids = self._limits.memory_bytes, self._pids()
        if self._launch.memory is not None:
            return Ending.MEMORY_EXCEEDED if count_uncharged(pids) > most else None
        counted = count_memory(pids, most)
        if is_long and counted <= most:
            counted += count_descriptors(pids, most - counted)
        if counted > most:
            return Ending.MEMORY_EXCEEDED
        least = min(_LEAST_AVAILABLE * total_memory(), self._available_at_start - most)
        return Ending.CROWDED_OUT if available_memory() < least else None

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
    launch: Launch, *, stdin: bytes | None, environment: Mapping[str, str]
) -> SandboxedProcess:
    """Start a confined program, which closes its `launch`. `stdin` is its whole input; None opens a stream for `send`.

    Raises VerifierError if it cannot be started.
    """
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        talk = None
        if stdin is None:
            talk, other = socket.socketpair()
            ours.enter_context(talk).setblocking(False)
            source = theirs.enter_context(other).fileno()
        else:
            source = _create_file(stdin, launch.user.uid if launch.user else None)
            theirs.callback(os.close, source)
        try:
            popen = _spawn(launch, source, environment)
            launch.close_inherited()
        except OSError as error:
            launch.close()
            raise VerifierError(
                f"A confined program could not be started: {error}.", code="sandbox_failed", retryable=True
            ) from error
        ours.pop_all()
    process = SandboxedProcess(popen, talk, launch)
    try:
        await process.connect()
    except BaseException:
        await process.close()
        raise
    return process


def _create_file(data: bytes, user: int | None) -> int:
    """Create an in-memory file with `data` as a program's input. bash treats a socket as a remote login."""
    file = os.memfd_create("stdin")
    with open(file, "wb", closefd=False) as writer:
        writer.write(data)
    os.lseek(file, 0, os.SEEK_SET)
    if user is not None:
        os.fchown(file, user, user)
    return file


def _spawn(launch: Launch, stdin: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        launch.command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=dict(environment),
        cwd=launch.workspace.folder if launch.workspace else "/",
        start_new_session=True,
        pass_fds=launch.inherited + launch.borrowed,
    )


async def _wait_for_exit(popen: subprocess.Popen[bytes]) -> None:
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
