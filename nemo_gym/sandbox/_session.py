"""One sandbox of any provider, from start to stop: `AsyncSandbox`, and the blocking `Sandbox`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from nemo_gym.processes.event_loop_thread import EventLoopThread
from nemo_gym.sandbox.providers.base import (
    SandboxExecResult,
    SandboxHandle,
    SandboxProvider,
    SandboxSpec,
    SandboxStatus,
)
from nemo_gym.sandbox.providers.registry import create_provider

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 180.0


class AsyncSandbox:
    """A sandbox of `provider`, given as an object or as `{name: options}`."""

    def __init__(
        self,
        provider: Mapping[str, Any] | SandboxProvider,
        spec: SandboxSpec | None = None,
        *,
        delete_on_stop: bool = False,
    ) -> None:
        self._provider = create_provider(provider) if isinstance(provider, Mapping) else provider
        self._spec = spec
        self._handle: SandboxHandle | None = None
        self._is_stopped = False
        # The ecosystem's argument has no effect: every provider here deletes its sandboxes.
        self.delete_on_stop = delete_on_stop

    async def start(
        self,
        spec: SandboxSpec | None = None,
        *,
        outside_endpoints: Sequence[Any] | None = None,
        delete_on_stop: bool | None = None,
    ) -> Self:
        """Create the sandbox and write its files.

        Each of `outside_endpoints` has an `env_var`, which is set to its `url`. Raises SandboxCreateError.
        """
        if self._is_stopped or self._handle is not None:
            raise RuntimeError("a sandbox can be started once")
        spec = spec if spec is not None else self._spec
        if spec is None:
            raise ValueError("a sandbox needs a SandboxSpec to start")
        outside = {endpoint.env_var: endpoint.url for endpoint in outside_endpoints or ()}
        spec = replace(spec, env={**spec.env, **outside})
        handle = await self._provider.create(spec)
        try:
            for path, text in spec.files.items():
                await self._write(handle, path, text)
        except BaseException:
            await self._provider.close(handle)
            raise
        self._spec, self._handle = spec, handle
        return self

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a shell command, by default in the spec's workdir."""
        cwd = cwd if cwd is not None else self._spec.workdir if self._spec else None
        return await self._provider.exec(
            self._started(), command, cwd=cwd, env=env, timeout_s=timeout_s, user=user
        )

    async def upload(self, local_path: Path | str, remote_path: str) -> None:
        """Copy a file into the sandbox."""
        await self._provider.upload_file(self._started(), Path(local_path), remote_path)

    async def download(self, remote_path: str, local_path: Path | str) -> None:
        """Copy a file out of the sandbox."""
        await self._provider.download_file(self._started(), remote_path, Path(local_path))

    async def status(self) -> SandboxStatus:
        if self._is_stopped:
            return SandboxStatus.STOPPED
        if self._handle is None:
            return SandboxStatus.UNKNOWN
        return await self._provider.status(self._handle)

    async def stop(self, *, delete: bool | None = None) -> None:
        """Delete the sandbox and release its provider. Idempotent."""
        if self._is_stopped:
            return
        self._is_stopped = True
        try:
            if self._handle is not None:
                await self._provider.close(self._handle)
        finally:
            await self._provider.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _started(self) -> SandboxHandle:
        if self._handle is None or self._is_stopped:
            raise RuntimeError("the sandbox is not started")
        return self._handle

    async def _write(self, handle: SandboxHandle, path: str, text: str) -> None:
        with tempfile.TemporaryDirectory(prefix="nemo_gym_upload_") as folder:
            source = Path(folder) / "contents"
            source.write_text(text, encoding="utf-8")
            await self._provider.upload_file(handle, source, path)


class Sandbox:
    """`AsyncSandbox` with blocking methods, for code outside an event loop."""

    def __init__(
        self,
        provider: Mapping[str, Any] | SandboxProvider,
        spec: SandboxSpec | None = None,
        *,
        delete_on_stop: bool = False,
    ) -> None:
        self._sandbox = AsyncSandbox(provider, spec, delete_on_stop=delete_on_stop)
        self._loop = EventLoopThread("sandbox")
        self._loop.__enter__()
        self._is_stopped = False

    def start(self, spec: SandboxSpec | None = None, **options: Any) -> Self:
        """See `AsyncSandbox.start`."""
        self._run(lambda: self._sandbox.start(spec, **options))
        return self

    def exec(self, command: str, **options: Any) -> SandboxExecResult:
        """See `AsyncSandbox.exec`."""
        return self._run(lambda: self._sandbox.exec(command, **options))

    def upload(self, local_path: Path | str, remote_path: str) -> None:
        """Copy a file into the sandbox."""
        self._run(lambda: self._sandbox.upload(local_path, remote_path))

    def download(self, remote_path: str, local_path: Path | str) -> None:
        """Copy a file out of the sandbox."""
        self._run(lambda: self._sandbox.download(remote_path, local_path))

    def status(self) -> SandboxStatus:
        if self._is_stopped:
            return SandboxStatus.STOPPED
        return self._run(self._sandbox.status)

    def stop(self, *, delete: bool | None = None) -> None:
        """Delete the sandbox and end its event loop. Idempotent."""
        if self._is_stopped:
            return
        try:
            self._run(lambda: self._sandbox.stop(delete=delete))
        finally:
            self._is_stopped = True
            self._loop.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run(work())
        raise RuntimeError("Sandbox blocks; in an event loop use AsyncSandbox")
