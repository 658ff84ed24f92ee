"""Terminal sessions of a sandbox, with a provider whose sessions are shells of this machine."""

from __future__ import annotations

import contextlib

import pytest

from nemo_gym.sandbox import AsyncSandbox, SandboxHandle, SandboxPtyError, SandboxPtySpec, SandboxSpec
from nemo_gym.sandbox.providers.terminal import TerminalProcess
from tests.sandbox.recording_provider import RecordingProvider


class ShellProvider(RecordingProvider):
    """A provider whose terminal sessions are shells of this machine, and attachable by their ids."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[TerminalProcess] = []

    async def create_pty(self, handle: SandboxHandle, spec: SandboxPtySpec) -> TerminalProcess:
        async def send(name: str) -> None: ...

        session = TerminalProcess(pty=spec.pty, send=send, owned=contextlib.ExitStack())
        command = ["/bin/sh"] if spec.command is None else ["/bin/sh", "-c", spec.command]
        self.opened.append(session)
        return await session.open(command, {"PS1": "", **(spec.env or {})}, spec.rows, spec.cols)

    async def attach_pty(
        self, handle: SandboxHandle, session_id: str, *, takeover: bool = True, since: int | None = None
    ) -> TerminalProcess:
        return next(session for session in self.opened if session.session_id == session_id)


@pytest.fixture
def provider() -> ShellProvider:
    return ShellProvider()


async def started(provider: ShellProvider) -> AsyncSandbox:
    return await AsyncSandbox(provider, SandboxSpec()).start()


async def test_a_command_has_a_session_of_its_own(provider: ShellProvider) -> None:
    async with await started(provider) as sandbox:
        done = await sandbox.pty.exec("echo out; echo err >&2; exit 3", env={"A": "1"}, pty=False)
        assert (done.stdout, done.stderr, done.return_code, done.error_type) == ("out\n", "err\n", 3, None)
        done = await sandbox.pty.exec("echo $A", env={"A": "1"})
        assert (done.stdout, done.stderr, done.return_code) == ("1\r\n", None, 0)
        assert [session.closed for session in provider.opened] == [True, True]


async def test_commands_share_an_open_shell_and_its_state(provider: ShellProvider) -> None:
    async with await started(provider) as sandbox:
        shell = await sandbox.pty.create()
        first = await sandbox.pty.exec("NAME=gym; false")
        second = await sandbox.pty.exec('echo "name $NAME"', session=shell)
        assert first.return_code == 1
        assert "name gym" in (second.stdout or "")
        assert len(provider.opened) == 1
        with pytest.raises(SandboxPtyError, match="ended the shell"):
            await sandbox.pty.exec("exit", session=shell)


async def test_a_command_over_its_timeout_is_a_result(provider: ShellProvider) -> None:
    async with await started(provider) as sandbox:
        done = await sandbox.pty.exec("sleep 600", timeout_s=0.2)
        assert (done.return_code, done.error_type) == (125, "timeout")
        assert provider.opened[0].closed


async def test_a_detached_command_has_a_session_of_its_own(provider: ShellProvider) -> None:
    async with await started(provider) as sandbox:
        await sandbox.pty.create()
        done = await sandbox.pty.exec("echo one; (exit 4)", detach=True, pty=False)
        assert (done.stdout, done.return_code) == ("one\n", 4)
        assert len(provider.opened) == 2


async def test_sessions_are_attached_by_their_ids_and_closed_with_the_sandbox(
    provider: ShellProvider,
) -> None:
    async with await started(provider) as sandbox:
        session = await sandbox.pty.create("cat")
        assert await sandbox.pty.attach(session.session_id) is session
    assert session.closed
