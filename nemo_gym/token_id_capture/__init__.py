"""The ecosystem's import path for the capture of tokens."""

from nemo_gym.protocol.token_capture import current_capture_context as current_capture_context
