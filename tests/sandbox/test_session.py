"""The ecosystem's sandbox interface, with the local provider and with a registered one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sandbox import (
    AsyncSandbox,
    Sandbox,
    SandboxCreateError,
    SandboxExecResult,
    SandboxSpec,
    SandboxStatus,
)
from tests.sandbox.recording_provider import RecordingProvider

LOCAL: dict[str, Any] = {"local": {}}


async def test_a_session_from_start_to_stop(tmp_path: Path) -> None:
    spec = SandboxSpec(env={"GREETING": "hello"}, files={"notes/a.txt": "one\n"})
    async with AsyncSandbox(LOCAL, spec) as sandbox:
        assert await sandbox.status() is SandboxStatus.UNKNOWN
        await sandbox.start()
        assert await sandbox.status() is SandboxStatus.RUNNING
        done = await sandbox.exec(
            'echo "$GREETING $NAME"; cat a.txt; exit 3', cwd="notes", env={"NAME": "gym"}
        )
        assert done == SandboxExecResult("hello gym\none\n", "", 3)
        (tmp_path / "in").write_bytes(b"\x00two")
        await sandbox.upload(tmp_path / "in", "deep/er/file")
        assert (await sandbox.exec("wc -c < deep/er/file")).stdout == "4\n"
        await sandbox.download("deep/er/file", str(tmp_path / "out" / "file"))
        assert (tmp_path / "out" / "file").read_bytes() == b"\x00two"
    assert await sandbox.status() is SandboxStatus.STOPPED
    with pytest.raises(RuntimeError, match="not started"):
        await sandbox.exec("true")
    with pytest.raises(RuntimeError, match="once"):
        await sandbox.start()


async def test_commands_run_in_the_workdir() -> None:
    sandbox = AsyncSandbox(LOCAL)
    try:
        await sandbox.start(SandboxSpec(workdir="/workspace/task", files={"/workspace/task/x": "1"}))
    except SandboxCreateError as error:
        pytest.skip(f"mounting a workdir needs bubblewrap: {error}")
    assert (await sandbox.exec("pwd; ls")).stdout == "/workspace/task\nx\n"
    await sandbox.stop()


def test_the_blocking_sandbox_works_without_an_event_loop() -> None:
    with Sandbox(LOCAL, SandboxSpec()) as sandbox:
        assert sandbox.start() is sandbox
        assert sandbox.exec("echo hi").stdout == "hi\n"
        assert sandbox.status() is SandboxStatus.RUNNING
    sandbox.stop()
    assert sandbox.status() is SandboxStatus.STOPPED


async def test_the_blocking_sandbox_refuses_an_event_loop() -> None:
    sandbox = Sandbox(LOCAL, SandboxSpec())
    with pytest.raises(RuntimeError, match="AsyncSandbox"):
        sandbox.start()
    await asyncio.to_thread(sandbox.stop)


async def test_a_failed_start_deletes_the_sandbox() -> None:
    provider = RecordingProvider(broken=True)
    sandbox = AsyncSandbox(provider, SandboxSpec(files={"f": "text"}))
    with pytest.raises(OSError, match="no room"):
        await sandbox.start()
    assert provider.calls == ["close"]
    with pytest.raises(ValueError, match="SandboxSpec"):
        await AsyncSandbox(provider).start()
