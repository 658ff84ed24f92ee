"""The import path of `NeMoGymAsyncOpenAI` and its kin."""

from nemo_gym.engines.openai_client import (
    RATE_LIMIT_ERROR_CODES,
    RETRY_ERROR_CODES,
    EngineClient,
)

__all__ = [
    "RATE_LIMIT_ERROR_CODES",
    "RETRY_ERROR_CODES",
    "EngineClient",
]
