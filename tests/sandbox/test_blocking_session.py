"""The sandbox of blocking code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sandbox import Sandbox, SandboxSpec, SandboxStatus

LOCAL: dict[str, Any] = {"local": {}}


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


def test_abilities_are_those_of_the_provider(tmp_path: Path) -> None:
    with Sandbox(LOCAL, SandboxSpec(files={"in": "text"})) as sandbox:
        sandbox.start()
        sandbox.download("in", tmp_path / "out")
        sandbox.upload(tmp_path / "out", "again")
        assert sandbox.exec("cat again").stdout == "text"
        for call in (sandbox.pause, sandbox.resume, lambda: sandbox.endpoint(80)):
            with pytest.raises(NotImplementedError, match="'local' has no"):
                call()
