"""The ecosystem's import path for the capture of tokens."""

from nemo_gym.ecosystem.token_capture import current_capture_context as current_capture_context
