"""The ecosystem's import path for the staging of tokens outside of the gym."""

from nemo_gym.ecosystem.token_capture import ExternalCaptureHandler as ExternalCaptureHandler
from nemo_gym.ecosystem.token_capture import make_external_capture_handler as make_external_capture_handler
