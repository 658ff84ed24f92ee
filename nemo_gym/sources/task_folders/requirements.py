"""The needs of a task of its sandbox, and the reasons for which a provider refuses it before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from nemo_gym.failures import ConfigError
from nemo_gym.isolation.memory import can_limit_cpus, can_limit_memory
from nemo_gym.sources.task_folders.folder import FolderTask
from nemo_gym.sources.task_folders.settings import (
    MAIN_SERVICE,
    EnvironmentSettings,
    NetworkMode,
    PhaseNetwork,
    StepSettings,
    list_artifacts,
)
from nemo_gym.sources.task_folders.values import find_host_variables

ROOTLESS = "rootless"
_LOCAL = "local"
COMPOSE_FILE = "docker-compose.yaml"
Limit = Literal["cpus", "memory_mb", "storage_mb"]
LIMITS: Final[tuple[str, ...]] = get_args(Limit)
"""The fields that limit a sandbox."""


@dataclass(frozen=True, slots=True)
class UnmetNeed:
    """A field that a run cannot honour."""

    field: str
    """`environment.os`."""
    reason: str
    """A word for counting: `windows`."""
    message: str


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a run on which tasks are accepted."""

    provider: str = ROOTLESS
    network: str | None = None
    """`none` to run tasks without a network that ask for one, which their rows say."""
    variables: frozenset[str] = frozenset()
    """The variables of this machine that tasks may read."""
    keeps_artifacts: bool = False
    unlimited: frozenset[str] = frozenset()
    """Limits that tasks run without, which their rows say."""


def check_provider(name: str) -> None:
    """Raise ConfigError for a provider that is unknown, or whose sandboxes no task can have."""
    from nemo_gym.sandbox.providers.registry import list_providers

    known = [each for each in list_providers() if each != _LOCAL]
    if name in known:
        return
    message = (
        f"The sandbox provider {name!r} runs no task folders: its sandboxes have no image and one user."
        if name == _LOCAL
        else f"There is no sandbox provider {name!r} here."
    )
    remedy = f"Write +sandbox_provider=NAME with one of {', '.join(known)}."
    raise ConfigError(message, code="sandbox_unavailable", remedy=remedy)


def find_refusals(task: FolderTask, terms: Terms) -> list[UnmetNeed]:
    """Return the fields of a task that a run on `terms` cannot honour; none if it can run."""
    return [*_list_refusals(task, terms)]


def _list_refusals(task: FolderTask, terms: Terms) -> Iterator[UnmetNeed]:
    settings = task.settings
    folders: dict[str, tuple[EnvironmentSettings, Path]] = {
        "environment": (settings.environment, task.environment)
    }
    yield from _find_phases("agent", settings.agent, settings.environment, terms)
    yield from _find_phases("verifier", settings.verifier, settings.environment, terms)
    yield from _find_variables("verifier.env", settings.verifier.env, terms)
    for index, step in enumerate(task.steps):
        image = task.find_verifier_image(step)
        if image is not None:
            place = "verifier.environment" if step is None else f"steps[{index}].verifier.environment"
            folders[place] = (image.settings, image.folder)
        if step is not None:
            yield from _find_phases(f"steps[{index}].agent", step.agent, settings.environment, terms)
            yield from _find_variables(f"steps[{index}].verifier.env", step.verifier.env, terms)
        yield from _find_services(task, step, "" if step is None else f"steps[{index}].")
    seen = set()
    for place, (environment, folder) in folders.items():
        for refusal in _find_environment(place, environment, folder, terms):
            if (refusal.reason, folder) not in seen:
                seen.add((refusal.reason, folder))
                yield refusal
    if (task.root / "trajectory.json").exists():
        yield UnmetNeed(
            "trajectory.json", "prior_trajectory", "the agent cannot continue an earlier trajectory"
        )


def _find_environment(
    place: str, environment: EnvironmentSettings, folder: Path, terms: Terms
) -> Iterator[UnmetNeed]:
    if environment.os != "linux":
        yield UnmetNeed(f"{place}.os", "windows", "the sandboxes of this gym run Linux")
    if environment.gpus:
        yield UnmetNeed(f"{place}.gpus", "gpus", f"sandboxes of {terms.provider} have no GPU")
    if environment.tpu is not None:
        yield UnmetNeed(f"{place}.tpu", "tpu", f"sandboxes of {terms.provider} have no TPU")
    if (folder / COMPOSE_FILE).exists():
        yield UnmetNeed(f"{place}/{COMPOSE_FILE}", "compose", "a task has one container here")
    for server in environment.mcp_servers:
        yield UnmetNeed(
            f"{place}.mcp_servers",
            f"mcp_{server.transport}",
            f"the MCP server {server.name!r} cannot be reached",
        )
    if environment.skills_dir is not None:
        yield UnmetNeed(f"{place}.skills_dir", "skills", "agents of this gym have skills by `skills`")
    for name in LIMITS:
        if getattr(environment, name) and name not in terms.unlimited:
            yield from _find_limit(f"{place}.{name}", name, terms)
    yield from _find_network(f"{place}.network_mode", environment.network_mode, terms)
    yield from _find_variables(f"{place}.env", environment.env, terms)
    if terms.provider == ROOTLESS:
        yield from _find_image(place, environment, folder)


def _find_limit(field: str, name: str, terms: Terms) -> Iterator[UnmetNeed]:
    is_enforced = name != "storage_mb"
    if terms.provider == ROOTLESS and is_enforced:
        is_enforced = can_limit_cpus() if name == "cpus" else can_limit_memory()
    if not is_enforced:
        message = f"sandboxes of {terms.provider} cannot limit it here, and +unlimited=[{name}] accepts that"
        yield UnmetNeed(field, name, message)


def _find_image(place: str, environment: EnvironmentSettings, folder: Path) -> Iterator[UnmetNeed]:
    from nemo_gym.sandbox.providers.rootless.build import check_dockerfile

    dockerfile = folder / "Dockerfile"
    if dockerfile.is_file():
        for problem in check_dockerfile(folder):
            yield UnmetNeed(f"{place}/Dockerfile", "dockerfile", problem)
    elif environment.docker_image:
        message = f"{environment.docker_image} is an image of a container engine, and there is no Dockerfile"
        yield UnmetNeed(f"{place}.docker_image", "docker_image", message)
    else:
        yield UnmetNeed(f"{place}/Dockerfile", "no_image", "there is no Dockerfile and no docker_image")


def _find_network(field: str, mode: NetworkMode | None, terms: Terms) -> Iterator[UnmetNeed]:
    if (
        mode is None
        or mode is NetworkMode.NO_NETWORK
        or (terms.network == "none" and mode is NetworkMode.PUBLIC)
    ):
        return
    if mode is NetworkMode.PUBLIC and terms.provider != ROOTLESS:
        return
    message = (
        "sandboxes have no network here"
        if mode is NetworkMode.PUBLIC
        else "hosts cannot be allowed one by one"
    )
    yield UnmetNeed(field, f"network_{mode}", message)


def _find_phases(
    place: str, phase: PhaseNetwork, environment: EnvironmentSettings, terms: Terms
) -> Iterator[UnmetNeed]:
    mode = phase.network_mode
    yield from _find_network(f"{place}.network_mode", mode, terms)
    is_other = mode is not None and mode is not environment.network_mode and terms.network is None
    if is_other and mode is NetworkMode.NO_NETWORK:
        yield UnmetNeed(
            f"{place}.network_mode", "network_switch", "the network of a running sandbox cannot change"
        )


def _find_variables(field: str, env: dict[str, str], terms: Terms) -> Iterator[UnmetNeed]:
    for name, default in find_host_variables(env).items():
        if name not in terms.variables and default is None:
            message = f"it reads the variable {name} of this machine, which +task_variables=[{name}] allows"
            yield UnmetNeed(field, "host_variable", message)


def _find_services(task: FolderTask, step: StepSettings | None, place: str) -> Iterator[UnmetNeed]:
    services = {hook.service for hook in task.settings.find_verifier(step).collect}
    services |= {each.service for each in list_artifacts(task.settings, step) if each.service}
    for service in sorted(services - {MAIN_SERVICE}):
        yield UnmetNeed(f"{place}verifier.collect", "compose", f"the service {service!r} needs Compose")


def list_deviations(task: FolderTask, terms: Terms) -> list[str]:
    """Return the fields of a task that a run on `terms` does not honour as they are, which its rows say."""
    settings, found = task.settings, []
    if not terms.keeps_artifacts and (
        settings.artifacts or any(step and step.artifacts for step in task.steps)
    ):
        found.append("artifacts are for a separate verifier only: `artifacts` of the run keeps them")
    modes = {settings.environment.network_mode, settings.agent.network_mode, settings.verifier.network_mode}
    if terms.network == "none" and NetworkMode.PUBLIC in modes:
        found.append("network_mode = 'public' runs without a network")
    environments = [settings.environment, settings.verifier.environment]
    environments += [step.verifier.environment for step in task.steps if step is not None]
    stated = {name for each in environments if each for name in LIMITS if getattr(each, name)}
    found += [f"{name} is not limited" for name in LIMITS if name in stated & terms.unlimited]
    if terms.provider != ROOTLESS:
        return found
    if settings.environment.docker_image:
        found.append(f"docker_image = {settings.environment.docker_image!r} is made anew of the Dockerfile")
    users = {settings.find_agent(step).user for step in task.steps}
    users |= {settings.find_verifier(step).user for step in task.steps}
    if users - {None, "root", 0, "0"}:
        found.append("other users than root have root's rights in their sandbox")
    return found
