"""`AsyncSandbox` with blocking methods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from nemo_gym.processes.event_loop_thread import EventLoopThread
from nemo_gym.sandbox._session import AsyncSandbox
from nemo_gym.sandbox.providers.protocols import SandboxProvider
from nemo_gym.sandbox.providers.specification import (
    SandboxEndpoint,
    SandboxExecResult,
    SandboxSpec,
    SandboxStatus,
)

T = TypeVar("T")


class Sandbox:
    """`AsyncSandbox` with blocking methods, for code outside an event loop."""

    def __init__(
        self,
        provider: Mapping[str, Any] | SandboxProvider,
        spec: SandboxSpec | None = None,
        *,
        owns_provider: bool = True,
        delete_on_stop: bool = False,
    ) -> None:
        self._sandbox = AsyncSandbox(
            provider, spec, owns_provider=owns_provider, delete_on_stop=delete_on_stop
        )
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

    def endpoint(self, port: int) -> SandboxEndpoint:
        """The endpoint of a port that the specification declares."""
        return self._run(lambda: self._sandbox.endpoint(port))

    def pause(self) -> None:
        """Pause the sandbox. Its state is kept."""
        self._run(self._sandbox.pause)

    def resume(self) -> None:
        """Resume the sandbox after a pause."""
        self._run(self._sandbox.resume)

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

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run(work())
        raise RuntimeError("Sandbox blocks; in an event loop use AsyncSandbox")
