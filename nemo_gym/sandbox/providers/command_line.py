"""The command line of a container engine: one process a call, with its output, a timeout and a bound on the output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from typing import IO, NamedTuple, Self

from nemo_gym.failures import ConfigError

MIB = 1 << 20
MAX_OUTPUT_BYTES = 64 * MIB
_CHUNK_BYTES = 1 << 16
_DRAIN_S = 0.2
"""Seconds for the rest of the output of a process that has exited. Its descendants may keep the streams open."""


class CommandDone(NamedTuple):
    """The end of a command."""

    return_code: int
    stdout: str
    stderr: str
    error: str | None = None
    """`timeout` or `output_exceeded` for a command that was killed."""

    @property
    def message(self) -> str:
        """The reason of a failure, in one line."""
        return " ".join((self.stderr or self.stdout or self.error or f"exit code {self.return_code}").split())

    def require_success(self, problem: str, kind: type[Exception] = RuntimeError) -> None:
        """Raise `kind` with the problem and its reason if the command failed or was killed."""
        if self.return_code != 0 or self.error is not None:
            raise kind(f"{problem}: {self.error or self.message}")


class CommandLine:
    """Runs `program`, at most `concurrency` processes at a time. Killed processes take their descendants along."""

    def __init__(self, program: str, concurrency: int = 32) -> None:
        self.program = program
        self.folder: str | None = None
        """The working directory of its processes; None for that of this process."""
        self._slots = asyncio.Semaphore(concurrency)

    async def run(
        self,
        *arguments: str,
        timeout_s: float | None,
        stdin: bytes | IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        variables: Mapping[str, str] | None = None,
        max_output_bytes: int | None = None,
    ) -> CommandDone:
        """Run the program with `variables` added to its environment, and wait for its exit.

        `stdin` is its whole input. Its output goes to the file `stdout`, if that is given. A program that prints more
        than `max_output_bytes` (by default `MAX_OUTPUT_BYTES`) is killed.
        """
        async with self._slots, _input(stdin) as source:
            with _Streams(MAX_OUTPUT_BYTES if max_output_bytes is None else max_output_bytes) as streams:
                output, errors = streams.inherited
                process = await asyncio.create_subprocess_exec(
                    self.program,
                    *arguments,
                    stdin=source,
                    stdout=output if stdout is None else stdout,
                    stderr=errors,
                    env={**os.environ, **(variables or {})},
                    cwd=self.folder,
                    start_new_session=True,
                )
                return await _await_end(process, streams, timeout_s)


class _Streams:
    """The output of a process, read from pipes of our own.

    `Process.wait` waits for the end of the process's own pipes, which a container that outlives it may hold open.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._pipes = [os.pipe() for _ in range(2)]
        self._data = [bytearray(), bytearray()]
        self._open: set[int] = set()
        self._ended = asyncio.Event()
        self._kill: Callable[[], None] = lambda: None
        self.exceeded = False

    @property
    def inherited(self) -> list[int]:
        """The descriptors to which the process writes."""
        return [write for _, write in self._pipes]

    def start_reading(self, kill: Callable[[], None]) -> None:
        """Read both streams. `kill` is called if they exceed the bound."""
        self._kill = kill
        for (read, write), data in zip(self._pipes, self._data, strict=True):
            os.close(write)
            os.set_blocking(read, False)
            self._open.add(read)
            asyncio.get_running_loop().add_reader(read, self._receive, read, data)

    async def drain(self) -> None:
        """Wait for the rest of the output of an ended process, for a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                await self._ended.wait()

    def texts(self) -> tuple[str, str]:
        """Standard output and standard error so far."""
        stdout, stderr = (data.decode(errors="replace") for data in self._data)
        return stdout, stderr

    def _receive(self, read: int, into: bytearray) -> None:
        chunk = os.read(read, _CHUNK_BYTES)
        into += chunk
        if not chunk:
            self._stop_reading(read)
        elif sum(map(len, self._data)) > self._most_bytes:
            self.exceeded = True
            self._kill()

    def _stop_reading(self, read: int) -> None:
        asyncio.get_running_loop().remove_reader(read)
        self._open.discard(read)
        if not self._open:
            self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        is_reading = bool(self._open) or self._ended.is_set()
        for descriptor in list(self._open):
            self._stop_reading(descriptor)
        for read, write in self._pipes:
            os.close(read)
            if not is_reading:
                os.close(write)


async def _await_end(
    process: asyncio.subprocess.Process, streams: _Streams, timeout_s: float | None
) -> CommandDone:
    """Read the output of a process until it exits, or kill it."""
    error = None
    try:
        streams.start_reading(lambda: _kill(process))
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        error = "timeout"
    finally:
        _kill(process)
        code = await process.wait()
    await streams.drain()
    error = "output_exceeded" if streams.exceeded else error
    return CommandDone(code, *streams.texts(), error)


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def _input(data: bytes | IO[bytes] | None) -> AsyncIterator[int]:
    if data is None:
        yield subprocess.DEVNULL
        return
    if not isinstance(data, bytes):
        yield data.fileno()
        return
    with tempfile.TemporaryFile() as file:
        await asyncio.to_thread(file.write, data)
        file.seek(0)
        yield file.fileno()


def find_program(name: str, folder: str | None = None) -> str:
    """The path of a program, in `folder` or on the search path. Raises ConfigError."""
    found = shutil.which(name, path=folder)
    if found is None:
        where = f"in {folder}" if folder else "on the search path"
        raise ConfigError(
            f"The sandbox provider {name!r} needs the program `{name}`, which is not {where}.",
            code="sandbox_unavailable",
            remedy=f"Install {name}, or set `sandbox` to another provider.",
        )
    return found
