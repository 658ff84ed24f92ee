"""Sandboxes as the ecosystem's environments and agents ask for them: a specification, a provider, a handle.

A provider makes sandboxes of one kind, locally or somewhere else. It is chosen by configuration:

    sandbox_provider: sandbox        # the name of a top-level block, or the block itself
    sandbox:
      local: {}                      # one provider and its options
      default_metadata: {team: gym}  # labels for every sandbox that it makes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

DEFAULT_METADATA = "default_metadata"


class SandboxStatus(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    ERROR = "error"
    UNKNOWN = "unknown"


class SandboxCreateError(RuntimeError):
    """A sandbox could not be made as it was asked for."""


@dataclass(frozen=True)
class SandboxResources:
    """What a sandbox asks of its machine."""

    cpu: float | None = None
    memory_mib: int | None = None
    disk_gib: int | None = None
    gpu: int | None = None
    gpu_type: str | None = None

    @classmethod
    def from_mapping(cls, resources: Mapping[str, Any] | None) -> SandboxResources:
        """Resources out of a configuration. Raises ValueError that names unknown keys."""
        given = dict(resources or {})
        unknown = sorted(given.keys() - {known.name for known in fields(cls)})
        if unknown:
            raise ValueError(f"unknown resources of a sandbox: {', '.join(unknown)}")
        numbers = {"cpu": float, "memory_mib": int, "disk_gib": int, "gpu": int, "gpu_type": str}
        return cls(**{name: numbers[name](value) for name, value in given.items() if value is not None})


@dataclass(frozen=True)
class SandboxSpec:
    """A sandbox to be made."""

    image: str | None = None
    ttl_s: float | None = None
    ready_timeout_s: float | None = None
    workdir: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Texts by path, written before the first command."""
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
    """A sandbox that was made."""

    sandbox_id: str
    provider_name: str
    raw: Any
    """The provider's own."""


@dataclass(frozen=True)
class SandboxExecResult:
    """A command that was run."""

    stdout: str | None
    stderr: str | None
    return_code: int
    error_type: str | None = None
    """Why there is no exit code of the command's own: `timeout`, for one. Null where there is."""


class SandboxProvider(Protocol):
    """Makes sandboxes of one kind."""

    name: str

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """A sandbox that is ready. Raises SandboxCreateError."""
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
        """Run a shell command in a sandbox."""
        ...

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None: ...

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None: ...

    async def status(self, handle: SandboxHandle) -> SandboxStatus: ...

    async def close(self, handle: SandboxHandle) -> None:
        """End a sandbox."""
        ...

    async def aclose(self) -> None:
        """Free what the provider itself holds."""
        ...


_providers: dict[str, type[Any]] = {}


def register_provider(name: str, provider_class: type[Any]) -> None:
    """Make a provider known under `name`. Raises ValueError where the name is empty or taken."""
    if not name:
        raise ValueError("a sandbox provider needs a name")
    if name in _providers:
        raise ValueError(f"there is a sandbox provider {name!r} already")
    _providers[name] = provider_class


def list_providers() -> list[str]:
    """The names of all providers."""
    return sorted(_providers)


def get_provider_class(name: str) -> type[Any]:
    """The provider of that name. Raises ValueError that names those there are."""
    if name not in _providers:
        raise ValueError(f"there is no sandbox provider {name!r}; there are {', '.join(list_providers())}")
    return _providers[name]


def create_provider(config: Mapping[str, Any]) -> SandboxProvider:
    """The provider that `{name: options}` describes. Raises ValueError where it describes none."""
    name, options = _only_provider(config, "the configuration of a sandbox provider")
    provider: SandboxProvider = get_provider_class(name)(**dict(options or {}))
    return provider


def resolve_provider_config(
    sandbox_provider: str | Mapping[str, Any], named_configs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`{provider name: options}` of a block, or of the top-level block of a name.

    Raises ValueError where there is no such block or it doesn't name exactly one provider.
    """
    block, where = _block_of(sandbox_provider, named_configs)
    name, options = _only_provider(block, where)
    return {name: options}


def resolve_provider_metadata(
    sandbox_provider: str | Mapping[str, Any], named_configs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The block's `default_metadata`: labels for every sandbox. Raises ValueError as `resolve_provider_config`."""
    block, where = _block_of(sandbox_provider, named_configs)
    metadata = block.get(DEFAULT_METADATA) or {}
    if not isinstance(metadata, Mapping):
        raise ValueError(f"{where}: {DEFAULT_METADATA} is {metadata!r}, no mapping")
    return dict(metadata)


def _block_of(
    sandbox_provider: str | Mapping[str, Any], named_configs: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any], str]:
    where = "sandbox_provider"
    block: Any = sandbox_provider
    if isinstance(sandbox_provider, str):
        where = f"the block {sandbox_provider!r}"
        block = (named_configs or {}).get(sandbox_provider)
        if block is None:
            raise ValueError(
                f"sandbox_provider names the top-level block {sandbox_provider!r}, and there is none"
            )
    if not isinstance(block, Mapping):
        raise ValueError(f"{where} is {block!r}, no mapping of a provider's name to its options")
    return _as_plain(block), where


def _as_plain(block: Mapping[str, Any]) -> Mapping[str, Any]:
    from omegaconf import DictConfig, OmegaConf

    if not isinstance(block, DictConfig):
        return block
    plain = OmegaConf.to_container(block, resolve=True)
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}


def _only_provider(block: Mapping[str, Any], where: str) -> tuple[str, Mapping[str, Any] | None]:
    names = [name for name in block if name != DEFAULT_METADATA]
    if len(names) != 1:
        raise ValueError(f"{where} must name one provider, not {len(names)}: {', '.join(names) or 'none'}")
    options = block[names[0]]
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"{where}: the options of {names[0]} are {options!r}, no mapping")
    return names[0], options
