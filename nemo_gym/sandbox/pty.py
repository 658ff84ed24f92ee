"""Terminal sessions in a sandbox, for providers that have them."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable
from dataclasses import replace

from nemo_gym.sandbox.providers.protocols import (
    SandboxProvider,
    SandboxPtySession,
    SupportsSandboxPty,
    SupportsSandboxPtyAttach,
    lacks,
)
from nemo_gym.sandbox.providers.specification import (
    NO_EXIT_CODE,
    SandboxExecResult,
    SandboxHandle,
    SandboxPtyError,
    SandboxPtySpec,
)


class SandboxPty:
    """`await sandbox.pty.create()` opens a session, `await sandbox.pty.exec(command)` runs one command in a session."""

    def __init__(self, handle: Callable[[], SandboxHandle], provider: SandboxProvider) -> None:
        self._handle, self._provider = handle, provider
        self._sessions: list[SandboxPtySession] = []
        self._shells: list[SandboxPtySession] = []
        self._in_shell = asyncio.Lock()

    async def create(
        self,
        command: str | None = None,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        rows: int = 24,
        cols: int = 80,
        user: str | int | None = None,
        pty: bool = True,
    ) -> SandboxPtySession:
        """Open a session with a command, by default the shell. It is closed with the sandbox, at the latest."""
        session = await self._open(SandboxPtySpec(command, cwd, env, rows, cols, user, pty))
        if command is None:
            self._shells.append(session)
        return session

    async def attach(
        self, session_id: str, *, takeover: bool = True, since: int | None = None
    ) -> SandboxPtySession:
        """Attach to a session that lives in the sandbox, opened here or by another process."""
        if not isinstance(self._provider, SupportsSandboxPtyAttach):
            raise lacks(self._provider, "terminal sessions to attach to")
        session = await self._provider.attach_pty(self._handle(), session_id, takeover=takeover, since=since)
        self._sessions.append(session)
        return session

    async def exec(
        self,
        command: str,
        *,
        session: SandboxPtySession | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float | None = 180.0,
        user: str | int | None = None,
        rows: int = 24,
        cols: int = 80,
        pty: bool = True,
        detach: bool = False,
        poll_interval_s: float = 15.0,
    ) -> SandboxExecResult:
        """Run one command and return its output, all of it as stdout in a terminal.

        It runs in `session`; or in the oldest open shell of `create`, if no argument shapes the session; or in a
        session of its own. The output from a shell contains the echo of the command. With `detach` the command runs
        without a connection. A command over its timeout goes on in a `session`, which is of no further use.
        """
        spec = SandboxPtySpec(None, cwd, env, rows, cols, user, pty)
        shell = session
        if shell is None and not detach and spec == SandboxPtySpec():
            shell = next((each for each in self._shells if not each.closed), None)
        try:
            async with asyncio.timeout(timeout_s):
                if detach:
                    return await self._run_detached(command, shell, spec, poll_interval_s)
                if shell is None:
                    async with await self._open(replace(spec, command=command)) as own:
                        return await _collect(own)
                async with self._in_shell:
                    return await _run_in_shell(shell, command)
        except TimeoutError:
            if shell is not None and session is None:
                await shell.close()
            message = f"the command took over {timeout_s:g} s"
            return SandboxExecResult(None, message, NO_EXIT_CODE, "timeout")

    async def _run_detached(
        self, command: str, session: SandboxPtySession | None, spec: SandboxPtySpec, poll_interval_s: float
    ) -> SandboxExecResult:
        if session is None:
            async with await self._open(spec) as own:
                return await self._run_detached(command, own, spec, poll_interval_s)
        output, status = await session.run_detached(command, poll_interval_s=poll_interval_s)
        return _result(output, None, status)

    async def close(self) -> None:
        """Close all sessions. Idempotent."""
        while self._sessions:
            await self._sessions.pop().close()

    async def _open(self, spec: SandboxPtySpec) -> SandboxPtySession:
        if not isinstance(self._provider, SupportsSandboxPty):
            raise lacks(self._provider, "terminal sessions")
        session = await self._provider.create_pty(self._handle(), spec)
        self._sessions.append(session)
        return session


async def _collect(session: SandboxPtySession) -> SandboxExecResult:
    """Read both streams to their end, and wait for the exit of the program."""

    async def read_all(read: Callable[[], object]) -> bytes:
        chunks = b""
        while chunk := await read():  # type: ignore[misc]
            chunks += chunk
        return chunks

    output, errors = await asyncio.gather(read_all(session.read), read_all(session.read_stderr))
    return _result(output, errors if session.mode == "pipe" else None, await session.wait_exit())


async def _run_in_shell(session: SandboxPtySession, command: str) -> SandboxExecResult:
    """Run a command in a live shell, up to a mark that the shell prints behind it."""
    key = uuid.uuid4().hex
    mark = re.compile(rb"<%s:(\d+)>\r?\n" % key.encode())
    # The echo of this line lacks the digits, so that it does not look like the mark.
    await session.write(f"{command}\nprintf '<%s:%d>\\n' {key} \"$?\"\n".encode())
    output = b""
    while (found := mark.search(output)) is None:
        chunk = await session.read()
        if not chunk:
            raise SandboxPtyError("the command ended the shell of the session")
        output += chunk
    return _result(output[: found.start()], None, int(found[1]))


def _result(output: bytes, errors: bytes | None, status: int | None) -> SandboxExecResult:
    return SandboxExecResult(
        output.decode(errors="replace"),
        None if errors is None else errors.decode(errors="replace"),
        NO_EXIT_CODE if status is None else status,
        "sandbox" if status is None else None,
    )
