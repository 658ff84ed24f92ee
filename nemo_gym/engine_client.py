"""The ecosystem's import path for the engine client, `NeMoGymAsyncOpenAI`."""

from nemo_gym.ecosystem.openai_client import MAX_NUM_TRIES as MAX_NUM_TRIES
from nemo_gym.ecosystem.openai_client import RATE_LIMIT_ERROR_CODES as RATE_LIMIT_ERROR_CODES
from nemo_gym.ecosystem.openai_client import RETRY_ERROR_CODES as RETRY_ERROR_CODES
from nemo_gym.ecosystem.openai_client import EngineClient as EngineClient
