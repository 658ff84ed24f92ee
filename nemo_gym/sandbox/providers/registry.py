"""Sandbox providers by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.sandbox.config import resolve_provider_config
from nemo_gym.sandbox.providers.base import SandboxProvider

_providers: dict[str, type[Any]] = {}


def register_provider(name: str, provider_class: type[Any]) -> None:
    """Register a provider under `name`. Raises ValueError if the name is empty or taken."""
    if not name:
        raise ValueError("a sandbox provider needs a name")
    if name in _providers:
        raise ValueError(f"a sandbox provider {name!r} is registered already")
    _providers[name] = provider_class


def list_providers() -> list[str]:
    """The names of all registered providers, sorted."""
    return sorted(_providers)


def get_provider_class(name: str) -> type[Any]:
    """The provider registered under `name`. Raises ValueError listing the registered names."""
    if name not in _providers:
        raise ValueError(f"there is no sandbox provider {name!r}; registered: {', '.join(list_providers())}")
    return _providers[name]


def create_provider(config: Mapping[str, Any]) -> SandboxProvider:
    """Create the provider that `{name: options}` describes. Raises ValueError if it does not name exactly one."""
    ((name, options),) = resolve_provider_config(config).items()
    provider: SandboxProvider = get_provider_class(name)(**dict(options or {}))
    return provider
