"""A terminal session that is a process of this machine."""

from __future__ import annotations

import contextlib

import pytest

from nemo_gym.sandbox.providers.specification import SandboxPtyError
from nemo_gym.sandbox.providers.terminal import TerminalProcess
from tests.waiting import until, until_gone


async def session_of(script: str, *, pty: bool = True, released: list[str] | None = None) -> TerminalProcess:
    signals: list[str] = []

    async def send(name: str) -> None:
        signals.append(name)

    owned = contextlib.ExitStack()
    owned.callback(lambda: (released if released is not None else signals).append("released"))
    session = TerminalProcess(pty=pty, send=send, owned=owned)
    return await session.open(["/bin/sh", "-c", script], {"NAME": "gym"}, 30, 100)


async def output_of(session: TerminalProcess) -> bytes:
    return b"".join([chunk async for chunk in session])


async def test_a_terminal_has_a_size_and_an_echo() -> None:
    async with await session_of('stty size; read line; echo "$NAME got $line"; exit 5') as session:
        assert await session.read(timeout_s=30) == b"30 100\r\n"
        await session.write(b"input\n")
        assert await output_of(session) == b"input\r\ngym got input\r\n"
        assert await session.wait_exit(timeout_s=30) == 5
        assert await session.read_stderr() == b""
        assert session.mode == "pty"


async def test_output_before_the_end_of_a_terminal_is_kept() -> None:
    async with await session_of("echo one; echo two") as session:
        assert await session.wait_exit(timeout_s=30) == 0
        reading = session._transport
        assert reading is not None
        await until(reading.is_closing)
        assert await output_of(session) == b"one\r\ntwo\r\n"


async def test_a_terminal_can_change_its_size() -> None:
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done"
    async with await session_of(script) as session:
        assert await session.read(timeout_s=30) == b"ready\r\n"
        await session.resize(50, 120)
        assert b"50 120" in await output_of(session)


async def test_pipes_have_a_stream_for_errors_and_no_echo() -> None:
    async with await session_of("read line; echo $line; echo no >&2", pty=False) as session:
        await session.write(b"input\n")
        assert await output_of(session) == b"input\n"
        assert await session.read_stderr() == b"no\n"
        await session.resize(1, 1)


async def test_a_read_can_time_out() -> None:
    async with await session_of("sleep 600") as session:
        with pytest.raises(TimeoutError):
            await session.read(timeout_s=0.05)
        with pytest.raises(TimeoutError):
            await session.wait_exit(timeout_s=0.05)


async def test_a_closed_session_has_ended_its_client() -> None:
    released: list[str] = []
    session = await session_of("echo ready; sleep 600", released=released)
    await session.read(timeout_s=30)
    pid = session._running.pid
    await session.close()
    await session.close()
    await until_gone(pid)
    assert (session.closed, released) == (True, ["released"])
    with pytest.raises(SandboxPtyError, match="closed"):
        await session.read()


async def test_a_detached_command_ends_the_shell() -> None:
    async with await session_of("exec sh", pty=False) as session:
        assert await session.run_detached("echo one; (exit 3)") == (b"one\n", 3)
