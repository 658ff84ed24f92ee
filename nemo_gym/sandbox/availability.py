"""Sandbox providers that servers name and this machine lacks, found before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.config import resolve_provider_config
from nemo_gym.sandbox.providers.protocols import SupportsAvailabilityCheck
from nemo_gym.sandbox.providers.registry import ENTRY_POINT_GROUP, get_provider_class, list_providers

OPTION = "sandbox_provider"
"""The option of a server that names its provider."""


def missing_providers(servers: Iterable[ServerInstance], config: Mapping[str, Any]) -> list[Problem]:
    """One problem for every server whose sandboxes cannot run here."""
    reasons: dict[str, tuple[str, str] | None] = {}
    problems = []
    for server in servers:
        given = server.config.get(OPTION)
        if not isinstance(given, str | Mapping):
            continue
        key = repr(given)
        if key not in reasons:
            reasons[key] = _reason(given, config)
        reason = reasons[key]
        if reason is not None:
            problems.append(Problem(server.where, f"{server.name}: {reason[0]}", reason[1]))
    return problems


def require_providers(servers: Iterable[ServerInstance], config: Mapping[str, Any]) -> None:
    """Raise `ConfigErrors` if the sandboxes of a server cannot run here."""
    problems = missing_providers(servers, config)
    if problems:
        raise ConfigErrors(problems)


def _reason(given: str | Mapping[str, Any], config: Mapping[str, Any]) -> tuple[str, str] | None:
    """The reason why a provider cannot run, and the remedy."""
    try:
        ((name, options),) = resolve_provider_config(given, config).items()
    except ValueError as error:
        return f"{error}.", f"Add a block such as `{given}: {{docker: {{}}}}`." if isinstance(
            given, str
        ) else ""
    if name not in list_providers():
        remedy = (
            f"Set another provider ({', '.join(list_providers())}), or install the package that publishes it "
            f"as an entry point of the group {ENTRY_POINT_GROUP}."
        )
        return f"there is no sandbox provider {name!r} here.", remedy
    try:
        provider = get_provider_class(name)
    except ImportError as error:
        return f"the sandbox provider {name!r} cannot be imported: {error}.", "Install its package anew."
    except ConfigError as error:
        return error.failure.message, error.failure.remedy or ""
    if not isinstance(provider, SupportsAvailabilityCheck):
        return None
    try:
        missing = provider.find_missing(dict(options or {}))
    except TypeError as error:
        return f"the options of the sandbox provider {name!r} are wrong: {error}.", "Correct its block."
    remedy = f"Install or start {name}, or set {OPTION} to another provider ({', '.join(list_providers())})."
    return None if missing is None else (f"the sandbox provider {name!r} cannot run: {missing}", remedy)
