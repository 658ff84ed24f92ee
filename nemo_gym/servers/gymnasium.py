"""The older import path of `nemo_gym.resources.gymnasium`."""

from nemo_gym.resources.gymnasium import (
    EnvResetRequest,
    EnvResetResponse,
    EnvStepRequest,
    EnvStepResponse,
    GymnasiumServer,
    StepResult,
    extract_text,
    last_action,
)

__all__ = [
    "EnvResetRequest",
    "EnvResetResponse",
    "EnvStepRequest",
    "EnvStepResponse",
    "GymnasiumServer",
    "StepResult",
    "extract_text",
    "last_action",
]
