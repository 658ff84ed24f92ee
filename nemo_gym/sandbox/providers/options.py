"""The sections of a provider's options, as data classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat

from nemo_gym.failures import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class ReadinessProbe:
    """The command that a new sandbox must pass before anything runs in it. Times are in seconds."""

    command: str | None = "printf ready"
    """None for no probe."""
    expected_stdout: str | None = "ready"
    timeout_s: PositiveFloat = 30
    """The limit of one attempt."""
    deadline_s: PositiveFloat | None = None
    """The limit of all attempts; None for a single attempt."""
    stable_count: NonNegativeInt = 1
    """Successes in a row."""
    stable_delay_s: NonNegativeFloat = 0.0
    """The pause between attempts."""


def section(kind: type[T], given: T | Mapping[str, Any] | None, where: str) -> T:
    """The section `where` of a provider's options. Raises ConfigError naming every unknown option."""
    if isinstance(given, kind):
        return given
    options: dict[str, Any] = dict(given or {})  # type: ignore[arg-type]
    known = [option.name for option in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise ConfigError(
            f"The options `{where}` of a sandbox provider have no {', '.join(unknown)}.",
            code="unknown_option",
            remedy=f"The options are {', '.join(known)}.",
        )
    return kind(**options)
