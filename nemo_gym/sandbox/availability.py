"""Sandbox providers and images that servers name and this machine lacks, found before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.config import resolve_provider_config
from nemo_gym.sandbox.providers.protocols import SupportsAvailabilityCheck, SupportsImageCheck
from nemo_gym.sandbox.providers.registry import ENTRY_POINT_GROUP, get_provider_class, list_providers

OPTION = "sandbox_provider"
"""The option of a server that names its provider."""
IMAGE_OPTION = "sandbox_image"
"""The option of a server whose sandboxes have one image, which must be on this machine."""


def find_missing_providers(servers: Iterable[ServerInstance], config: Mapping[str, Any]) -> list[Problem]:
    """One problem for every server whose sandboxes cannot run here."""
    reasons: dict[str, tuple[str, str] | None] = {}
    problems = []
    for server in servers:
        given = server.config.get(OPTION)
        if not isinstance(given, str | Mapping):
            continue
        image = server.config.get(IMAGE_OPTION)
        key = repr((given, image))
        if key not in reasons:
            reasons[key] = _reason(given, image if isinstance(image, str) else None, config)
        reason = reasons[key]
        if reason is not None:
            problems.append(Problem(server.where, f"{server.name}: {reason[0]}", reason[1]))
    return problems


def require_providers(servers: Iterable[ServerInstance], config: Mapping[str, Any]) -> None:
    """Raise `ConfigErrors` if the sandboxes of a server cannot run here."""
    problems = find_missing_providers(servers, config)
    if problems:
        raise ConfigErrors(problems)


def _reason(
    given: str | Mapping[str, Any], image: str | None, config: Mapping[str, Any]
) -> tuple[str, str] | None:
    """The reason why a provider cannot run, or lacks the image, and the remedy."""
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
    return _provider_reason(name, provider, options) or _image_reason(name, provider, image)


def _provider_reason(
    name: str, provider: type[Any], options: Mapping[str, Any] | None
) -> tuple[str, str] | None:
    if not isinstance(provider, SupportsAvailabilityCheck):
        return None
    try:
        missing = provider.find_missing(dict(options or {}))
    except TypeError as error:
        return f"the options of the sandbox provider {name!r} are wrong: {error}.", "Correct its block."
    remedy = f"Install or start {name}, or set {OPTION} to another provider ({', '.join(list_providers())})."
    return None if missing is None else (f"the sandbox provider {name!r} cannot run: {missing}", remedy)


def _image_reason(name: str, provider: type[Any], image: str | None) -> tuple[str, str] | None:
    if image is None or not isinstance(provider, SupportsImageCheck):
        return None
    missing = provider.find_missing_image(image)
    remedy = f"Get it as this user with `{name} pull {image}`, or make it with `{name} build --tag {image} FOLDER`."
    return None if missing is None else (f"{name} has no image {image!r} here: {missing}", remedy)
