"""One sandbox of any provider, from start to stop."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from nemo_gym.sandbox.providers.protocols import (
    ConnectableProvider,
    SandboxProvider,
    SupportsSandboxBackgroundServices,
    SupportsSandboxEndpoint,
    SupportsSandboxPauseResume,
    SupportsSandboxSnapshots,
    lacks,
)
from nemo_gym.sandbox.providers.registry import resolve_provider
from nemo_gym.sandbox.providers.specification import (
    SandboxEndpoint,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStartError,
    SandboxStatus,
)
from nemo_gym.sandbox.pty import SandboxPty

DEFAULT_TIMEOUT_S = 180.0
_PORTS = "ports"


class AsyncSandbox:
    """A sandbox of `provider`, given as an object or as `{name: options}`.

    With `owns_provider=False` the provider outlives the sandbox, and its owner closes it.
    """

    def __init__(
        self,
        provider: Mapping[str, Any] | SandboxProvider,
        spec: SandboxSpec | None = None,
        *,
        owns_provider: bool = True,
        delete_on_stop: bool = False,
    ) -> None:
        self._provider = resolve_provider(provider)
        self._spec = spec
        self._owns_provider = owns_provider
        self._handle: SandboxHandle | None = None
        self._is_stopped = False
        self.pty = SandboxPty(self._require_handle, self._provider)
        # The ecosystem's argument has no effect: every provider here deletes its sandboxes.
        self.delete_on_stop = delete_on_stop

    async def start(
        self,
        spec: SandboxSpec | None = None,
        *,
        outside_endpoints: Sequence[Any] | None = None,
        delete_on_stop: bool | None = None,
        snapshot: Path | None = None,
    ) -> Self:
        """Create the sandbox and write its files, or create it with the files of a snapshot.

        Each of `outside_endpoints` has an `env_var`, which is set to its `url`. Raises SandboxCreateError.
        """
        if self._is_stopped or self._handle is not None:
            raise RuntimeError("a sandbox can be started once")
        spec = spec if spec is not None else self._spec
        if spec is None:
            raise ValueError("a sandbox needs a SandboxSpec to start")
        outside = {endpoint.env_var: endpoint.url for endpoint in outside_endpoints or ()}
        spec = replace(spec, env={**spec.env, **outside})
        try:
            self._handle = await self._create(spec, snapshot)
        except OSError as error:
            name = getattr(self._provider, "name", type(self._provider).__name__)
            message = f"the sandbox provider {name!r} cannot start a sandbox: {error}"
            raise SandboxStartError(message) from error
        self._spec = spec
        return self

    async def start_with_setup(
        self, spec: SandboxSpec | None, setup: Callable[[AsyncSandbox], Awaitable[None]]
    ) -> Self:
        """Start the sandbox and run `setup` with it. The sandbox is stopped if `setup` raises."""
        await self.start(spec)
        try:
            await setup(self)
        except BaseException:
            await self.stop()
            raise
        return self

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        user: str | int | None = None,
        preserve_background_services: bool = False,
    ) -> SandboxExecResult:
        """Run a shell command, by default in the spec's workdir.

        With `preserve_background_services`, processes that the command leaves behind go on after it. Their output must
        be redirected. Raises NotImplementedError if the provider ends them, and ValueError if it cannot combine this
        with `env` or `user`.
        """
        handle = self._require_handle()
        cwd = cwd if cwd is not None else self._spec.workdir if self._spec else None
        provider = self._provider
        if not preserve_background_services:
            return await provider.exec(handle, command, cwd=cwd, env=env, timeout_s=timeout_s, user=user)
        if not isinstance(provider, SupportsSandboxBackgroundServices):
            raise lacks(provider, "services that outlive their command")
        run: Callable[..., Awaitable[SandboxExecResult]] = provider.exec_with_background_services
        wanted = {**({"env": env} if env else {}), **({"user": user} if user is not None else {})}
        refused = sorted(wanted.keys() - inspect.signature(run).parameters.keys())
        if refused:
            raise ValueError(
                f"the sandbox provider {provider.name!r} takes no {' and no '.join(refused)} for a command that "
                "preserves background services"
            )
        return await run(handle, command, cwd=cwd, timeout_s=timeout_s, **wanted)

    async def upload(self, local_path: Path | str, remote_path: str) -> None:
        """Copy a file into the sandbox."""
        await self._provider.upload_file(self._require_handle(), Path(local_path), remote_path)

    async def download(self, remote_path: str, local_path: Path | str) -> None:
        """Copy a file out of the sandbox."""
        await self._provider.download_file(self._require_handle(), remote_path, Path(local_path))

    async def status(self) -> SandboxStatus:
        if self._is_stopped:
            return SandboxStatus.STOPPED
        if self._handle is None:
            return SandboxStatus.UNKNOWN
        return await self._provider.status(self._handle)

    async def endpoint(self, port: int) -> SandboxEndpoint:
        """The endpoint of a port that the specification declares."""
        if not isinstance(self._provider, SupportsSandboxEndpoint):
            raise lacks(self._provider, "endpoints")
        return await self._provider.endpoint(self._require_handle(), port)

    async def pause(self) -> None:
        """Pause the sandbox. Its state is kept."""
        if not isinstance(self._provider, SupportsSandboxPauseResume):
            raise lacks(self._provider, "pauses")
        await self._provider.pause(self._require_handle())

    async def resume(self) -> None:
        """Resume the sandbox after a pause."""
        if not isinstance(self._provider, SupportsSandboxPauseResume):
            raise lacks(self._provider, "pauses")
        await self._provider.resume(self._require_handle())

    async def snapshot(self, path: Path) -> bool:
        """Write the files of the sandbox into a new file, with which another one can start. Raises OSError.

        Returns False while processes go on in the sandbox.
        """
        if not isinstance(self._provider, SupportsSandboxSnapshots):
            raise lacks(self._provider, "snapshots")
        return await self._provider.snapshot(self._require_handle(), path)

    async def serialize(self, *, scope: str | None = None) -> dict[str, Any]:
        """Return a description in JSON, from which another process connects to the sandbox (`connect`)."""
        if not isinstance(self._provider, ConnectableProvider):
            raise lacks(self._provider, "connections from other processes")
        descriptor = dict(await self._provider.serialize_handle(self._require_handle(), scope=scope))
        if self._spec is not None and self._spec.ports:
            descriptor.setdefault(_PORTS, list(self._spec.ports))
        return descriptor

    @classmethod
    async def connect(
        cls,
        descriptor: Mapping[str, Any],
        *,
        provider: Mapping[str, Any] | SandboxProvider,
        owns_provider: bool = True,
    ) -> Self:
        """Connect to a running sandbox from the description that `serialize` returned."""
        sandbox = cls(provider, owns_provider=owns_provider)
        if not isinstance(sandbox._provider, ConnectableProvider):
            raise lacks(sandbox._provider, "connections from other processes")
        sandbox._handle = await sandbox._provider.connect(descriptor)
        return sandbox

    async def disconnect(self) -> None:
        """Release a sandbox of another process without stopping it. Idempotent."""
        await self._release(closes=False)

    async def stop(self, *, delete: bool | None = None) -> None:
        """Delete the sandbox and release its provider. Idempotent."""
        await self._release(closes=True)

    async def _create(self, spec: SandboxSpec, snapshot: Path | None) -> SandboxHandle:
        if snapshot is not None:
            if not isinstance(self._provider, SupportsSandboxSnapshots):
                raise lacks(self._provider, "snapshots")
            return await self._provider.restore(spec, snapshot)
        handle = await self._provider.create(spec)
        try:
            for path, text in spec.files.items():
                await self._write(handle, path, text)
        except BaseException:
            await self._provider.close(handle)
            raise
        return handle

    async def _release(self, *, closes: bool) -> None:
        if self._is_stopped:
            return
        self._is_stopped = True
        try:
            await self.pty.close()
            if closes and self._handle is not None:
                await self._provider.close(self._handle)
        finally:
            if self._owns_provider:
                await self._provider.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _require_handle(self) -> SandboxHandle:
        if self._handle is None or self._is_stopped:
            raise RuntimeError("the sandbox is not started")
        return self._handle

    async def _write(self, handle: SandboxHandle, path: str, text: str) -> None:
        with tempfile.TemporaryDirectory(prefix="nemo_gym_upload_") as folder:
            source = Path(folder) / "contents"
            source.write_text(text, encoding="utf-8")
            await self._provider.upload_file(handle, source, path)
