"""The ecosystem's import path for model servers."""

from fastapi import Body as Body

from nemo_gym.engines.model import BaseResponsesAPIModel as BaseResponsesAPIModel
from nemo_gym.engines.model import BaseResponsesAPIModelConfig as BaseResponsesAPIModelConfig
from nemo_gym.engines.model import SimpleResponsesAPIModel as SimpleResponsesAPIModel
