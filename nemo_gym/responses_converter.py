"""The ecosystem's import path for the conversion between APIs."""

from nemo_gym.responses.converter import (
    ResponsesConverter,
    VLLMConverter,
    split_responses_input_output_items,
)

__all__ = [
    "ResponsesConverter",
    "VLLMConverter",
    "split_responses_input_output_items",
]
