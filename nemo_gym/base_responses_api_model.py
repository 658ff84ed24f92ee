"""The ecosystem's import path for model servers."""

from fastapi import Body

from nemo_gym.engines.model import BaseResponsesAPIModel, BaseResponsesAPIModelConfig, SimpleResponsesAPIModel

__all__ = ["BaseResponsesAPIModel", "BaseResponsesAPIModelConfig", "Body", "SimpleResponsesAPIModel"]
