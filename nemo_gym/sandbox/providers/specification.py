"""Sandboxes as data: their specification, handle, state and endpoints, and the results of their commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeAlias
from urllib.parse import urlsplit

NO_EXIT_CODE = 125
"""The return code of a command that the sandbox killed, or could not run."""


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


class SandboxCreateVerificationError(SandboxCreateError):
    """A new sandbox did not pass the provider's readiness probe."""


class SandboxPtyError(RuntimeError):
    """A terminal session ended in another way than by the exit of its program."""


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
class SandboxEndpoint:
    """A service in a sandbox, as callers outside reach it."""

    endpoint: str
    """An absolute URL."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers that the provider requires of every request."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if not (parts.scheme and parts.hostname):
            raise ValueError(f"the endpoint of a sandbox must be an absolute URL, not {self.endpoint!r}")


@dataclass(frozen=True)
class SandboxSpec:
    """The specification of a sandbox to create.

    Times are in seconds. A provider refuses fields that it cannot honour, or logs a warning where the sandbox is the
    same without them.
    """

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


ExecResult: TypeAlias = SandboxExecResult
"""The ecosystem's older name."""


@dataclass(frozen=True)
class SandboxPtySpec:
    """The specification of a terminal session in a sandbox."""

    command: str | None = None
    """None for the shell itself."""
    cwd: str | None = None
    env: dict[str, str] | None = None
    rows: int = 24
    cols: int = 80
    user: str | int | None = None
    pty: bool = True
    """False for pipes: there is no terminal, and stderr is a stream of its own."""
