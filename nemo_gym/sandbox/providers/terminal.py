"""A terminal session that is a process of this machine, such as the client of a container engine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import struct
import termios
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import IO, Self

from nemo_gym.sandbox.providers.specification import SandboxPtyError

_CHUNK_BYTES = 1 << 16


class TerminalProcess:
    """A running client in a terminal or with pipes.

    `send` sends a signal to the program in the sandbox. `owned` is closed with the session.
    """

    closed = False

    def __init__(
        self, *, pty: bool, send: Callable[[str], Awaitable[None]], owned: contextlib.ExitStack
    ) -> None:
        self.session_id = uuid.uuid4().hex
        self.mode: str | None = "pty" if pty else "pipe"
        self._send, self._owned = send, owned
        self._process: asyncio.subprocess.Process | None = None
        self._terminal: int | None = None
        self._output = asyncio.StreamReader()
        self._transport: asyncio.BaseTransport | None = None

    async def open(self, command: Sequence[str], variables: Mapping[str, str], rows: int, cols: int) -> Self:
        """Start the client, with `variables` added to its environment."""
        start = partial(
            asyncio.create_subprocess_exec,
            *command,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        if self.mode == "pipe":
            pipe = asyncio.subprocess.PIPE
            self._process = await start(stdin=pipe, stdout=pipe, stderr=pipe)
            assert self._process.stdout is not None
            self._output = self._process.stdout
            return self
        self._terminal, inner = os.openpty()
        try:
            self._set_size(rows, cols)
            self._process = await start(stdin=inner, stdout=inner, stderr=inner)
        finally:
            os.close(inner)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: _TerminalOutput(self._output), _open_file(os.dup(self._terminal))
        )
        return self

    async def read(self, *, timeout_s: float | None = None) -> bytes:
        """Return the next output; empty after its end."""
        return await self._read(self._output, timeout_s)

    async def read_stderr(self, *, timeout_s: float | None = None) -> bytes:
        """Return the next error output of a session with pipes; a terminal has none."""
        stream = self._running.stderr
        return await self._read(stream, timeout_s) if stream is not None else b""

    async def _read(self, stream: asyncio.StreamReader, timeout_s: float | None) -> bytes:
        if self.closed:
            raise SandboxPtyError("the terminal session is closed")
        async with asyncio.timeout(timeout_s):
            return await stream.read(_CHUNK_BYTES)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self.read():
            yield chunk

    async def write(self, data: bytes) -> None:
        """Send input to the program."""
        if self._terminal is not None:
            await asyncio.to_thread(_write_all, self._terminal, data)
            return
        stdin = self._running.stdin
        if stdin is None:
            raise SandboxPtyError("the terminal session is closed")
        stdin.write(data)
        await stdin.drain()

    async def resize(self, rows: int, cols: int) -> None:
        """Change the size of the terminal; without one, do nothing."""
        if self._terminal is not None:
            self._set_size(rows, cols)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, signal.SIGWINCH)

    async def send_signal(self, signal: str) -> None:
        """Send a signal, such as `SIGTERM`, to the program's process group."""
        await self._send(signal)

    async def wait_exit(self, *, timeout_s: float | None = None) -> int:
        """Return the exit code of the program, once it has ended."""
        async with asyncio.timeout(timeout_s):
            return await self._running.wait()

    async def run_detached(self, command: str, *, poll_interval_s: float = 15.0) -> tuple[bytes, int | None]:
        """Run a command and then leave the shell. The client is local, so that it stays connected."""
        await self.write(f"{command}\nexit\n".encode())
        output = b"".join([chunk async for chunk in self])
        return output, await self.wait_exit()

    async def close(self) -> None:
        """End the program and the client. Idempotent."""
        if self.closed:
            return
        self.closed = True
        with self._owned:
            await self._end()

    async def _end(self) -> None:
        process = self._running
        if process.returncode is None:
            with contextlib.suppress(Exception):  # the sandbox may be gone
                await self._send("SIGKILL")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if self._transport is not None:
            self._transport.close()
        if self._terminal is not None:
            os.close(self._terminal)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the session is not open"
        return self._process

    def _set_size(self, rows: int, cols: int) -> None:
        assert self._terminal is not None
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


class _TerminalOutput(asyncio.StreamReaderProtocol):
    """Reads a terminal to its end, which Linux reports as EIO.

    A stream reader with an exception drops the output that it holds, so that EIO becomes a plain end.
    """

    def connection_lost(self, exc: Exception | None) -> None:
        is_end = isinstance(exc, OSError) and exc.errno == errno.EIO
        super().connection_lost(None if is_end else exc)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _open_file(descriptor: int) -> IO[bytes]:
    return open(descriptor, "rb", buffering=0)
