"""The ecosystem's import path for the engine client, `NeMoGymAsyncOpenAI`."""

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
