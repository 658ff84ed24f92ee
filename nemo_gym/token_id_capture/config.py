"""The ecosystem's import path for the settings of the capture of tokens."""

from nemo_gym.ecosystem.token_capture import TokenIdCaptureConfig as TokenIdCaptureConfig
from nemo_gym.ecosystem.token_capture import token_id_capture_config as token_id_capture_config
