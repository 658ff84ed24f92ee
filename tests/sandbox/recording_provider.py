"""A provider of an environment, which records its calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.sandbox import (
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
)


class Endpoint(NamedTuple):
    env_var: str
    url: str


class RecordingProvider:
    """A provider of an environment, which records its calls."""

    name = "recording"

    def __init__(self, *, broken: bool = False) -> None:
        self.broken, self.calls, self.specs = broken, list[str](), list[SandboxSpec]()

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        self.specs.append(spec)
        return SandboxHandle("1", self.name, None)

    async def exec(self, handle: SandboxHandle, command: str, **options: Any) -> SandboxExecResult:
        self.calls.append(f"exec {command} {options}")
        return SandboxExecResult(None, None, 0)

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        if self.broken:
            raise OSError("no room")
        text = await asyncio.to_thread(source_path.read_text)
        self.calls.append(f"upload {target_path} {text}")

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None: ...

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        return SandboxStatus.PAUSED

    async def close(self, handle: SandboxHandle) -> None:
        self.calls.append("close")

    async def aclose(self) -> None:
        self.calls.append("aclose")
