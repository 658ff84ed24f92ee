"""The options of the provider `apptainer`."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import PositiveFloat, PositiveInt

from nemo_gym.sandbox.providers.options import ReadinessProbe

ApptainerProbeConfig = ReadinessProbe


@dataclass(frozen=True)
class ApptainerCreateConfig:
    """The options with which instances start."""

    mount_point: str = "/sandbox"
    """The path in the sandbox of its writable folder. Images are read-only unless `extra_start_args` change it."""
    start_timeout_s: PositiveFloat | None = 600
    extra_start_args: list[str] = field(default_factory=list)
    apply_resource_limits: bool = True


@dataclass(frozen=True)
class ApptainerExecConfig:
    """The options with which commands run in instances."""

    default_timeout_s: PositiveFloat | None = 180
    timeout_grace_s: float = 15
    """Accepted for the ecosystem's configurations; a command over its timeout is killed at once."""
    fakeroot_for_root: bool = True
    """Commands as root run with `--fakeroot`."""
    default_binds: list[str] = field(default_factory=list)
    extra_exec_args: list[str] = field(default_factory=list)
    concurrency: PositiveInt = 32
