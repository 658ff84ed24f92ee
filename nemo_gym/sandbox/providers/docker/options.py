"""The options of container providers, and of the containers that they create."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import PositiveFloat, PositiveInt

from nemo_gym.sandbox.providers.options import ReadinessProbe

__all__ = ["DockerCreateConfig", "DockerExecConfig"]

DockerProbeConfig = ReadinessProbe


@dataclass(frozen=True)
class DockerCreateConfig:
    """The options with which containers start."""

    keepalive_shell: str = "/bin/sh"
    """The entry point of a container without a command of its own."""
    keepalive_cmd: str = "while :; do sleep 2147483647; done"
    """The script that keeps it running."""
    start_timeout_s: PositiveFloat | None = 600
    """Seconds for the start, the download of the image included."""
    use_init: bool = True
    """An init process ends the processes that commands leave behind as zombies."""
    network: str | None = None
    """None for the engine's default, which reaches the internet; `none` for no network."""
    read_only: bool = False
    cap_drop: list[str] = field(default_factory=list)
    security_opt: list[str] = field(default_factory=list)
    pids_limit: int | None = None
    extra_run_args: list[str] = field(default_factory=list)
    apply_resource_limits: bool = True
    publish_host: str = "127.0.0.1"
    """The address of this machine at which declared ports are reached."""


@dataclass(frozen=True)
class DockerExecConfig:
    """The options with which commands run in containers."""

    default_timeout_s: PositiveFloat | None = 180
    extra_exec_args: list[str] = field(default_factory=list)
    concurrency: PositiveInt = 32
    """Simultaneous processes of the engine's command line."""
    exec_shell: str | None = None
    """None for bash where the image has it, and sh elsewhere."""
