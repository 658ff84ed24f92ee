"""The ecosystem's import path for streaming requests of harnesses."""

from nemo_gym.responses.harness_requests import (
    sanitize_streaming_responses_body as sanitize_streaming_responses_body,
)
