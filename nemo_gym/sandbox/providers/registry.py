"""Sandbox providers by name: registered by code, built in, or published by an installed package.

A package publishes the class of a provider (`nemo_gym.sandbox.providers.protocols`) as an entry point:

    [project.entry-points."nemo_gym.sandbox_providers"]
    my_provider = "my_package.provider:MyProvider"
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.config import resolve_provider_config
from nemo_gym.sandbox.providers.class_checks import find_option_problems
from nemo_gym.sandbox.providers.protocols import SandboxProvider

ENTRY_POINT_GROUP = "nemo_gym.sandbox_providers"
_BUILT_IN = {
    "apptainer": "nemo_gym.sandbox.providers.apptainer.provider:ApptainerProvider",
    "docker": "nemo_gym.sandbox.providers.docker.provider:DockerProvider",
    "local": "nemo_gym.sandbox.providers.local.provider:LocalProvider",
    "podman": "nemo_gym.sandbox.providers.podman.provider:PodmanProvider",
    "rootless": "nemo_gym.sandbox.providers.rootless.provider:RootlessProvider",
}
_registered: dict[str, type[Any]] = {}


def register_provider(name: str, provider_class: type[Any], *, override: bool = False) -> None:
    """Register a provider under `name`.

    Raises ValueError if the name is empty, or is registered already and `override` is not set.
    """
    if not name:
        raise ValueError("a sandbox provider needs a name")
    if name in _registered and not override:
        raise ValueError(f"a sandbox provider {name!r} is registered already")
    _registered[name] = provider_class


def list_providers() -> list[str]:
    """The names of all providers, sorted. Their programs may be missing."""
    return sorted({*_registered, *_BUILT_IN, *_list_published()})


def get_provider_class(name: str) -> type[Any]:
    """The provider with a name. Raises ValueError listing the names of all."""
    if name in _registered:
        return _registered[name]
    if name in _BUILT_IN:
        found: type[Any] = pkgutil.resolve_name(_BUILT_IN[name])
        return found
    published = _list_published()
    if name not in published:
        raise ValueError(
            f"there is no sandbox provider {name!r}; there are {', '.join(list_providers())}. "
            f"A package adds one by an entry point of the group {ENTRY_POINT_GROUP}."
        )
    loaded: type[Any] = published[name].load()
    return loaded


def create_provider(config: Mapping[str, Any]) -> SandboxProvider:
    """Create the provider that `{name: options}` describes.

    Raises ValueError if it does not name exactly one, and ConfigError if an option is wrong or its program is missing.
    """
    ((name, given),) = resolve_provider_config(config).items()
    provider_class, options = get_provider_class(name), dict(given or {})
    problems = find_option_problems(name, provider_class, options, (name,))
    if problems:
        raise ConfigErrors(problems)
    provider: SandboxProvider = provider_class(**options)
    return provider


def resolve_provider(given: Mapping[str, Any] | SandboxProvider) -> SandboxProvider:
    """Return a provider that is given as an object or as `{name: options}`.

    Raises ConfigError for anything else, such as the name of a block or a class, and as `create_provider`.
    """
    if isinstance(given, Mapping):
        return create_provider(given)
    if isinstance(given, type) or not hasattr(given, "exec"):
        raise ConfigError(
            f"A sandbox takes a provider or `{{name: options}}`, not {given!r}.",
            code="no_sandbox_provider",
            remedy=f"Give it resolve_provider_config({given!r}, self.server_client.global_config_dict)."
            if isinstance(given, str)
            else "Give it an object of a provider's class, or a block such as {'local': {}}.",
        )
    return given


def _list_published() -> dict[str, EntryPoint]:
    """The providers of installed packages. Raises ConfigError if two packages publish the same name."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise ConfigError(
                f"Two packages publish a sandbox provider {point.name!r}: {other.value} and {point.value}.",
                code="ambiguous_sandbox_provider",
                remedy="Uninstall one of them.",
            )
    return found
