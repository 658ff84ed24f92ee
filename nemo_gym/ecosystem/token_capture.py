"""The block `token_id_capture` of a configuration, as servers of the ecosystem read it.

In this gym the model servers capture tokens for every rollout (docs/tokens.md), so a server never has a capture context
of its own, and tokens cannot be staged outside of the gym.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import BaseModel, Field

from nemo_gym.failures import ConfigError

BLOCK = "token_id_capture"


class TokenIdCaptureSettings(BaseModel, extra="allow", frozen=True):
    """The keys of the block that servers read; others are kept as they are."""

    enabled: bool = False
    external_staging: bool = False
    external_staging_backend: str | None = None


class TokenIdCaptureConfig(BaseModel):
    """A configuration, as far as it concerns the capture of tokens."""

    token_id_capture: TokenIdCaptureSettings = Field(default_factory=TokenIdCaptureSettings)


class ExternalCaptureHandler(Protocol):
    """Stages the tokens of model calls outside of the gym."""


def token_id_capture_config(global_config_dict: Mapping[str, Any]) -> TokenIdCaptureConfig:
    """Return the settings of a configuration, by default without any capture."""
    return TokenIdCaptureConfig.model_validate({BLOCK: global_config_dict.get(BLOCK) or {}})


def current_capture_context() -> None:
    """Return None: requests have no capture context, because the model servers of the gym capture tokens."""


def make_external_capture_handler(backend: str | None) -> ExternalCaptureHandler:
    """Raise `ConfigError`: tokens are not staged outside of the gym."""
    raise ConfigError(
        f"{BLOCK}.external_staging ({backend}) is not supported",
        code="external_staging",
        remedy=f"Remove it from {BLOCK}: rows carry the tokens that the model servers capture (docs/tokens.md).",
    )
