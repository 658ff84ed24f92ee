"""The interface between sandbox sessions and providers: a specification, a handle, a result, a protocol.

A provider makes sandboxes of one kind, on this machine or elsewhere. `nemo_gym.sandbox.config` describes its
configuration and `nemo_gym.sandbox.providers.registry` its registration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol


class SandboxStatus(StrEnum):
    """The state of a sandbox, as its provider reports it."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    ERROR = "error"
    UNKNOWN = "unknown"


class SandboxCreateError(RuntimeError):
    """A provider could not create a sandbox as specified."""


@dataclass(frozen=True)
class SandboxResources:
    """The resources that a sandbox requests; None leaves one to the provider."""

    cpu: float | None = None
    memory_mib: int | None = None
    disk_gib: int | None = None
    gpu: int | None = None
    gpu_type: str | None = None

    @classmethod
    def from_mapping(cls, resources: Mapping[str, Any] | None) -> SandboxResources:
        """Read resources from a configuration. Raises ValueError naming unknown keys."""
        given = dict(resources or {})
        unknown = sorted(given.keys() - {known.name for known in fields(cls)})
        if unknown:
            raise ValueError(f"unknown sandbox resources: {', '.join(unknown)}")
        numbers = {"cpu": float, "memory_mib": int, "disk_gib": int, "gpu": int, "gpu_type": str}
        return cls(**{name: numbers[name](value) for name, value in given.items() if value is not None})


@dataclass(frozen=True)
class SandboxSpec:
    """The specification of a sandbox to create."""

    image: str | None = None
    ttl_s: float | None = None
    ready_timeout_s: float | None = None
    workdir: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Path → text of the files to write before the first command."""
    metadata: dict[str, str] = field(default_factory=dict)
    resources: SandboxResources | Mapping[str, Any] = field(default_factory=SandboxResources)
    entrypoint: list[str] | None = None
    provider_options: dict[str, Any] = field(default_factory=dict)
    ports: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.resources, SandboxResources):
            object.__setattr__(self, "resources", SandboxResources.from_mapping(self.resources))
        object.__setattr__(self, "ports", tuple(self.ports))


@dataclass
class SandboxHandle:
    """A created sandbox."""

    sandbox_id: str
    provider_name: str
    raw: Any
    """The provider's own object for the sandbox."""


@dataclass(frozen=True)
class SandboxExecResult:
    """The result of a command in a sandbox."""

    stdout: str | None
    stderr: str | None
    return_code: int
    error_type: str | None = None
    """The reason why the command has no exit code of its own, such as `timeout`; None where it has one."""


class SandboxProvider(Protocol):
    """Creates and operates sandboxes of one kind."""

    name: str

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Create a sandbox that is ready for commands. Raises SandboxCreateError."""
        ...

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
        """Run a shell command in a sandbox, for at most `timeout_s` seconds."""
        ...

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None: ...

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None: ...

    async def status(self, handle: SandboxHandle) -> SandboxStatus: ...

    async def close(self, handle: SandboxHandle) -> None:
        """Stop and delete a sandbox."""
        ...

    async def aclose(self) -> None:
        """Release the resources of the provider itself."""
        ...
