"""The table `[gym]` of a `dataset.toml`: facts of a dataset that the format has no field for, and changes of its tasks.

The settings change `task.toml` before anything else reads it: `[gym.tasks."NAME".environment]` replaces fields of one
task, and `[gym.defaults]` then multiplies limits of all tasks. A key that is unknown is an error.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.sources.task_folders.settings import (
    EnvironmentSettings,
    StepSettings,
    TaskSettings,
    VerifierSettings,
)

_RESOURCES: Final = ("cpus", "memory_mb", "storage_mb")
_FIELDS: Final = EnvironmentSettings.model_fields.keys() - {"allow_internet"}
"""The fields that may be replaced, in their own spelling."""


class GymDefaults(BaseModel):
    """Factors for the limits of every task."""

    model_config = ConfigDict(extra="forbid")

    timeout_multiplier: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Of the seconds of agents and verifiers."""
    resource_multiplier: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Of `cpus`, `memory_mb` and `storage_mb`, rounded up."""


class GymTask(BaseModel):
    """Settings that replace those of one task; `env` adds to its variables."""

    model_config = ConfigDict(extra="forbid")

    environment: dict[str, Any] = Field(default_factory=dict)


class GymTable(BaseModel):
    """The table `[gym]`."""

    model_config = ConfigDict(extra="forbid")

    license: str | None = None
    type: str | None = None
    source: str | None = None
    domain: str | None = None
    verified: bool | None = None
    allowed_agents: list[str] | None = None
    """The agents that may play its tasks; None for any."""
    defaults: GymDefaults = Field(default_factory=GymDefaults)
    tasks: dict[str, GymTask] = Field(default_factory=dict)

    def digest(self, name: str) -> str | None:
        """Return a digest of the settings that change a task; None if there are none."""
        changes = (self.defaults, self.tasks.get(name, GymTask()))
        if changes == (GymDefaults(), GymTask()):
            return None
        return hashlib.sha256("\n".join(each.model_dump_json() for each in changes).encode()).hexdigest()

    def adjust(self, name: str, settings: TaskSettings) -> TaskSettings:
        """Return the settings of a task as this dataset changes them. Raises ValueError for a wrong field."""
        if self.digest(name) is None:
            return settings
        environment = _replace(settings.environment, self.tasks.get(name, GymTask()).environment)
        agent = settings.agent.model_copy(update=self._lengthen(settings.agent.timeout_sec))
        steps = [self._adjust_step(step) for step in settings.steps] if settings.steps else settings.steps
        changes = {
            "environment": self._enlarge(environment),
            "agent": agent,
            "verifier": self._adjust_verifier(settings.verifier),
            "steps": steps,
        }
        return settings.model_copy(update=changes)

    def _adjust_step(self, step: StepSettings) -> StepSettings:
        agent = step.agent.model_copy(update=self._lengthen(step.agent.timeout_sec))
        return step.model_copy(update={"agent": agent, "verifier": self._adjust_verifier(step.verifier)})

    def _adjust_verifier(self, verifier: VerifierSettings) -> VerifierSettings:
        own = {} if verifier.environment is None else {"environment": self._enlarge(verifier.environment)}
        return verifier.model_copy(update={**self._lengthen(verifier.timeout_sec), **own})

    def _lengthen(self, timeout_s: float | None) -> dict[str, float]:
        return {} if timeout_s is None else {"timeout_sec": timeout_s * self.defaults.timeout_multiplier}

    def _enlarge(self, environment: EnvironmentSettings) -> EnvironmentSettings:
        factor = self.defaults.resource_multiplier
        stated = {name: getattr(environment, name) for name in _RESOURCES if getattr(environment, name)}
        larger = {name: math.ceil(value * factor) for name, value in stated.items()}
        return environment.model_copy(update=larger) if factor != 1 else environment


def _replace(environment: EnvironmentSettings, changes: Mapping[str, Any]) -> EnvironmentSettings:
    if unknown := sorted(changes.keys() - _FIELDS):
        raise ValueError(f"[environment] has no field {', '.join(unknown)}")
    own = environment.model_dump(exclude_unset=True)
    added = {"env": {**environment.env, **changes["env"]}} if isinstance(changes.get("env"), dict) else {}
    return EnvironmentSettings.model_validate({**own, **changes, **added})
