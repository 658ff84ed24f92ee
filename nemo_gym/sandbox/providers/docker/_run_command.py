"""The arguments with which a container starts."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nemo_gym.sandbox.providers.docker.options import DockerCreateConfig
from nemo_gym.sandbox.providers.specification import SandboxCreateError, SandboxResources, SandboxSpec

LABEL = "nemo-gym.sandbox"
"""The label of every container of the gym, for their removal after a crash."""
_VOLUMES, _RUN_ARGS = "volumes", "run_args"


def normalize_image(image: str | None) -> str:
    """The image without the scheme that apptainer needs. Raises SandboxCreateError without an image."""
    if not image:
        raise SandboxCreateError("a container needs `image` in its SandboxSpec", retryable=False)
    return image.removeprefix("docker://")


def find_unused_options(options: Mapping[str, Any]) -> list[str]:
    """The options of a specification that containers do not have.

    Raises SandboxCreateError for a network policy: to leave it out would open the network.
    """
    if "network_policy" in options:
        raise SandboxCreateError(
            "containers cannot enforce `network_policy`; set `create.network: none` of the provider",
            retryable=False,
        )
    return [f"provider_options.{name}" for name in sorted(options.keys() - {_VOLUMES, _RUN_ARGS})]


def run_arguments(name: str, spec: SandboxSpec, create: DockerCreateConfig, gpus: Sequence[str]) -> list[str]:
    """The arguments of `run`, the image and its command included."""
    options = spec.provider_options
    volumes = options.get(_VOLUMES) or []
    arguments = ["run", "--detach", "--name", name, "--label", f"{LABEL}=1"]
    arguments += [part for key, value in spec.metadata.items() for part in ("--label", f"{key}={value}")]
    arguments += ["--init"] if create.use_init else []
    arguments += ["--network", create.network] if create.network else []
    arguments += ["--read-only"] if create.read_only else []
    arguments += _repeat_option("--cap-drop", create.cap_drop)
    arguments += _repeat_option("--security-opt", create.security_opt)
    arguments += ["--pids-limit", str(create.pids_limit)] if create.pids_limit is not None else []
    arguments += ["--workdir", spec.workdir] if spec.workdir and spec.entrypoint else []
    arguments += _repeat_option(
        "--publish", [_write_published_port(create.publish_host, port) for port in spec.ports]
    )
    arguments += _repeat_option("--volume", [volumes] if isinstance(volumes, str) else volumes)
    assert isinstance(spec.resources, SandboxResources)
    arguments += _limits(spec.resources) if create.apply_resource_limits else []
    arguments += [*gpus, *create.extra_run_args, *(options.get(_RUN_ARGS) or [])]
    return [*arguments, *_main_program(spec, create)]


def _main_program(spec: SandboxSpec, create: DockerCreateConfig) -> list[str]:
    image = normalize_image(spec.image)
    if spec.entrypoint:
        return ["--entrypoint", spec.entrypoint[0], image, *spec.entrypoint[1:]]
    script, ends = create.keepalive_cmd, []
    if spec.ttl_s is not None:
        script, ends = f"sleep {spec.ttl_s:g}", ["--rm"]
    return [*ends, "--entrypoint", create.keepalive_shell, image, "-c", script]


def _limits(resources: SandboxResources) -> list[str]:
    limits = ["--cpus", f"{resources.cpu:g}"] if resources.cpu else []
    if resources.memory_mib:
        memory = f"{resources.memory_mib}m"
        limits += ["--memory", memory, "--memory-swap", memory]  # equal limits leave no swap
    return limits


def _write_published_port(host: str, port: int) -> str:
    return f"[{host}]::{port}" if ":" in host else f"{host}::{port}"


def _repeat_option(option: str, values: Sequence[str]) -> list[str]:
    return [part for value in values for part in (option, value)]


@contextlib.contextmanager
def environment_arguments(env: Mapping[str, str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Options that set variables in a container, and the variables that the client needs for them.

    Values stand in a private file. One with several lines cannot, and is read from the client's environment.
    """
    several = {name: value for name, value in env.items() if "\n" in value}
    named = _repeat_option("--env", sorted(several))
    lines = [f"{name}={value}\n" for name, value in env.items() if name not in several]
    if not lines:
        yield named, several
        return
    with tempfile.NamedTemporaryFile("w", prefix="nemo_gym_env_", encoding="utf-8") as file:
        file.writelines(lines)
        file.flush()
        yield ["--env-file", file.name, *named], several
