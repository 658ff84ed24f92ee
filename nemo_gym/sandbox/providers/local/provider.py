"""The sandbox provider `local`: commands on this machine, confined by `nemo_gym.isolation.execution`.

A sandbox is a workspace folder, the only state that survives a command; each command runs in a fresh isolation without
network. It starts in milliseconds and needs no daemon. Unsupported requests (an image, a GPU, ports, a given user) are
refused.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import PositiveFloat, PositiveInt

from nemo_gym.failures import ConfigError, GymError
from nemo_gym.isolation.confinement import MIB, Workspace
from nemo_gym.isolation.execution import ConfinedRunner, Ending, SandboxLimits, remove_workspace
from nemo_gym.sandbox.providers.specification import (
    NO_EXIT_CODE,
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)

_log = logging.getLogger(__name__)

_ERROR_OF_ENDING = {
    Ending.TIMED_OUT: "timeout",
    Ending.OUTPUT_EXCEEDED: "output_exceeded",
    Ending.MEMORY_EXCEEDED: "memory_exceeded",
    Ending.STOPPED: "stopped",
}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_WRITE = 'mkdir -p -- "$(dirname -- "$0")" && cat > "$0"'
_READ = 'cat -- "$0"'
_IN_FOLDER = 'cd -- "$0" && exec "$@"'


class _LocalSandbox:
    """The provider's state of one sandbox."""

    def __init__(self, workspace: Workspace, env: dict[str, str], limits: SandboxLimits) -> None:
        self.workspace, self.env, self.limits = workspace, env, limits
        self.is_open = True


class LocalProvider:
    """Creates sandboxes on this machine.

    `ignore_image` replaces a requested image by the machine's own programs. Workspaces are made in `workspace_root`, by
    default the temporary folder. Without bubblewrap every user must be able to enter it.
    """

    name = "local"

    def __init__(
        self,
        *,
        require_sandbox: bool = False,
        ignore_image: bool = False,
        workspace_root: str | None = None,
        shell: str | None = None,
        default_timeout_s: PositiveFloat = 180.0,
        concurrency: PositiveInt = 8,
        memory_mib: PositiveInt = 2048,
        max_processes: PositiveInt = 256,
        max_file_mib: PositiveInt = 1024,
        max_files: PositiveInt = 1_000_000,
        max_output_mib: PositiveInt = 16,
    ) -> None:
        self._shell = shell or shutil.which("bash") or "/bin/sh"
        self._workspace_root = Path(workspace_root).absolute() if workspace_root is not None else None
        self._sandbox = ConfinedRunner(probe=(self._shell, "-c", "exit 0"), require_sandbox=require_sandbox)
        self._ignores_image = ignore_image
        self._slots = asyncio.Semaphore(concurrency)
        self._limits = SandboxLimits(
            wall_s=default_timeout_s,
            memory_bytes=memory_mib * MIB,
            processes=max_processes,
            file_bytes=max_file_mib * MIB,
            files=max_files,
            output_bytes=max_output_mib * MIB,
        )

    @classmethod
    def find_missing(cls, options: Mapping[str, Any]) -> str | None:
        """The reason why no isolation works here; None if one does."""
        try:
            asyncio.run(cls(**options)._sandbox.isolation())
        except ConfigError as error:
            return error.failure.message
        return None

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Create a workspace, mounted at `spec.workdir`. Raises SandboxCreateError naming every unsupported request."""
        resources = spec.resources
        assert isinstance(resources, SandboxResources)
        self._refuse(spec, resources)
        seen_as = Path(spec.workdir) if spec.workdir else None
        if seen_as is not None and not seen_as.is_absolute():
            raise SandboxCreateError(
                f"workdir must be an absolute path, not {spec.workdir!r}", retryable=False
            )
        try:
            if self._workspace_root is not None:
                await asyncio.to_thread(self._workspace_root.mkdir, parents=True, exist_ok=True)
            workspace = await self._sandbox.make_workspace(seen_as, parent=self._workspace_root)
        except GymError as error:
            raise SandboxCreateError(error, retryable=error.failure.retryable) from error
        except OSError as error:
            raise SandboxCreateError(error) from error
        memory = resources.memory_mib * MIB if resources.memory_mib else self._limits.memory_bytes
        limits = replace(self._limits, memory_bytes=memory)
        return SandboxHandle(
            f"local-{uuid.uuid4().hex[:12]}", self.name, _LocalSandbox(workspace, dict(spec.env), limits)
        )

    async def exec(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a shell command in `cwd`, relative to the workdir."""
        if user is not None:
            raise ValueError("the local sandbox provider cannot run commands as a given user")
        sandbox = _require_open(handle)
        program = [self._shell, "-c", command]
        if cwd is not None:
            program = ["/bin/sh", "-c", _IN_FOLDER, cwd, *program]
        limits = replace(sandbox.limits, wall_s=timeout_s) if timeout_s is not None else sandbox.limits
        environment = {"PATH": _PATH, "HOME": str(sandbox.workspace.place), **sandbox.env, **(env or {})}
        async with self._slots:
            done = await self._sandbox.run(
                program, limits=limits, workspace=sandbox.workspace, environment=environment
            )
        error = _ERROR_OF_ENDING.get(done.ending)
        return SandboxExecResult(
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
            NO_EXIT_CODE if error else done.exit_status,
            error,
        )

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        """Copy a file of this machine into the sandbox. Raises OSError if it cannot be written."""
        data = await asyncio.to_thread(source_path.read_bytes)
        await self._transfer(handle, _WRITE, target_path, data)

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        """Copy a file out of the sandbox. It is read inside, so that a symbolic link cannot lead outside."""
        data = await self._transfer(handle, _READ, source_path)
        target_path.parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(target_path.write_bytes, data)

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        return SandboxStatus.RUNNING if handle.raw.is_open else SandboxStatus.STOPPED

    async def close(self, handle: SandboxHandle) -> None:
        """Delete the workspace. Idempotent."""
        handle.raw.is_open = False
        await remove_workspace(handle.raw.workspace)

    async def aclose(self) -> None:
        """Do nothing: the provider holds no resources of its own."""

    def _refuse(self, spec: SandboxSpec, resources: SandboxResources) -> None:
        wanted = {
            "image": bool(spec.image) and not self._ignores_image,
            "entrypoint": bool(spec.entrypoint),
            "ports": bool(spec.ports),
            "resources.gpu": bool(resources.gpu),
            "provider_options": bool(spec.provider_options),
        }
        refused = [name for name, is_wanted in wanted.items() if is_wanted]
        if refused:
            raise SandboxCreateError(
                f"the local sandbox provider does not support: {', '.join(refused)}", retryable=False
            )
        shared = {"ttl_s": spec.ttl_s, "cpu": resources.cpu, "disk_gib": resources.disk_gib}
        unused = [name for name, value in shared.items() if value is not None]
        if unused:
            _log.warning(
                "The local sandbox provider shares this machine and does not set %s.", ", ".join(unused)
            )

    async def _transfer(self, handle: SandboxHandle, script: str, path: str, data: bytes = b"") -> bytes:
        sandbox = _require_open(handle)
        async with self._slots:
            done = await self._sandbox.run(
                ["/bin/sh", "-c", script, path],
                stdin=data,
                limits=SandboxLimits(
                    file_bytes=sandbox.limits.file_bytes,
                    files=sandbox.limits.files,
                    output_bytes=sandbox.limits.file_bytes,
                ),
                workspace=sandbox.workspace,
                environment={"PATH": _PATH},
            )
        if done.exit_status != 0 or done.ending is not Ending.EXITED:
            said = done.stderr.decode(errors="replace").strip()
            raise OSError(f"{path} in the sandbox: {said or done.ending}")
        return done.stdout


def _require_open(handle: SandboxHandle) -> _LocalSandbox:
    sandbox: _LocalSandbox = handle.raw
    if not sandbox.is_open:
        raise RuntimeError(f"the sandbox {handle.sandbox_id} was closed")
    return sandbox
