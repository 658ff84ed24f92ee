"""Sandbox providers and images that servers name and this machine lacks, found before anything starts."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from typing import Any

from nemo_gym.config.problems import ConfigErrors, Problem, list_problems
from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.config import resolve_provider_config, resolve_provider_metadata
from nemo_gym.sandbox.providers.class_checks import (
    describe_options,
    find_method_problems,
    find_option_problems,
    list_options,
)
from nemo_gym.sandbox.providers.protocols import SupportsAvailabilityCheck, SupportsImageCheck
from nemo_gym.sandbox.providers.registry import ENTRY_POINT_GROUP, get_provider_class, list_providers

OPTION = "sandbox_provider"
"""The option of a server that names its provider."""
IMAGE_OPTION = "sandbox_image"
"""The option of a server whose sandboxes have one image, which must be on this machine."""


def find_missing_providers(servers: Iterable[ServerInstance], config: Mapping[str, Any]) -> list[Problem]:
    """All problems of every server whose sandboxes cannot run here."""
    found: dict[str, list[Problem]] = {}
    problems = []
    for server in servers:
        given = server.config.get(OPTION)
        if not isinstance(given, str | Mapping):
            continue
        image = server.config.get(IMAGE_OPTION)
        key = repr((given, image))
        if key not in found:
            found[key] = _find_problems(given, image if isinstance(image, str) else None, config)
        problems += [
            Problem(server.where, f"{server.name}: {each.message}", each.remedy) for each in found[key]
        ]
    return problems


def require_providers(servers: Iterable[ServerInstance], config: Mapping[str, Any]) -> None:
    """Raise `ConfigErrors` if the sandboxes of a server cannot run here."""
    problems = find_missing_providers(servers, config)
    if problems:
        raise ConfigErrors(problems)


def require_provider(given: Mapping[str, Any]) -> None:
    """Raise `ConfigErrors` if the sandboxes of a provider, given as `{name: options}`, cannot run here."""
    if problems := _find_problems(given, None, {}):
        raise ConfigErrors(problems)


def _find_problems(
    given: str | Mapping[str, Any], image: str | None, config: Mapping[str, Any]
) -> list[Problem]:
    """Return the reasons why a provider cannot run, or lacks the image."""
    try:
        ((name, options),) = resolve_provider_config(given, config).items()
        resolve_provider_metadata(given, config)
    except ValueError as error:
        example = f"{given}: {{docker: {{}}}}" if isinstance(given, str) else "{docker: {}}"
        return [Problem(None, f"{error}.", f"Write a block such as `{example}`.")]
    try:
        provider = _load_class(name)
    except ConfigError as error:
        return list_problems(error)
    faults = find_method_problems(provider)
    if faults:
        message = f"the sandbox provider {name!r} cannot be used: {'; '.join(faults)}."
        return [Problem(None, message, "Correct its class: docs/sandboxes.md, `Write a provider`.")]
    options = dict(options or {})
    at = (given if isinstance(given, str) else OPTION, name)
    return (
        find_option_problems(name, provider, options, at)
        or _find_missing_part(name, provider, options)
        or _find_missing_image(name, provider, image)
    )


def _load_class(name: str) -> Any:
    """Return the class that is published as a provider. Raises ConfigError without one, and if its module fails."""
    names = list_providers()
    if name not in names:
        raise ConfigError(
            f"there is no sandbox provider {name!r} here.",
            code="sandbox_unavailable",
            remedy=f"Set another provider ({', '.join(names)}), or install the package that publishes it "
            f"as an entry point of the group {ENTRY_POINT_GROUP}.",
        )
    try:
        return get_provider_class(name)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"the sandbox provider {name!r} cannot be imported: {_describe(error)}.",
            code="sandbox_unavailable",
            remedy="Correct its package, or install it anew.",
        ) from error


def _find_missing_part(name: str, provider: type[Any], options: Mapping[str, Any]) -> list[Problem]:
    if not isinstance(provider, SupportsAvailabilityCheck):
        return []
    try:
        missing = provider.find_missing(options)
    except (TypeError, ValueError) as error:
        message = f"the sandbox provider {name!r} refuses its options: {_describe(error)}."
        return [Problem(None, message, f"Correct them. {describe_options(list_options(provider))}".strip())]
    except Exception as error:  # noqa: BLE001 - the boundary: the provider is of others
        return _convert_failed_check(name, error)
    if missing is None:
        return []
    message = f"the sandbox provider {name!r} cannot run: {missing}"
    return [Problem(None, message, f"Put that right, or {_propose_others(name)}.")]


def _find_missing_image(name: str, provider: type[Any], image: str | None) -> list[Problem]:
    if image is None or not isinstance(provider, SupportsImageCheck):
        return []
    try:
        missing = provider.find_missing_image(image)
    except Exception as error:  # noqa: BLE001 - the boundary: the provider is of others
        return _convert_failed_check(name, error)
    if missing is None:
        return []
    remedy = f"Get it as this user with `{name} pull {image}`, or make it with `{name} build --tag {image} FOLDER`."
    return [Problem(None, f"{name} has no image {image!r} here: {missing}", remedy)]


def _convert_failed_check(name: str, error: Exception) -> list[Problem]:
    """Return the problems of a check that raised: those that it states, or the exception."""
    if isinstance(error, ConfigError):
        return list_problems(error)
    message = f"the sandbox provider {name!r} cannot be checked: {_describe(error)}."
    return [Problem(None, message, f"Correct its check, or {_propose_others(name)}.")]


def _propose_others(name: str) -> str:
    others = ", ".join(each for each in list_providers() if each != name)
    return f"set {OPTION} to another provider ({others})"


def _describe(error: Exception) -> str:
    """Return the kind, the text and the place of an exception in a provider's code."""
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
