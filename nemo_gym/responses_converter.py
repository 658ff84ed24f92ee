"""The ecosystem's import path for the conversion between APIs."""

from nemo_gym.responses.converter import ResponsesConverter as ResponsesConverter
from nemo_gym.responses.converter import VLLMConverter as VLLMConverter
from nemo_gym.responses.converter import (
    VLLMConverterResponsesToChatCompletionsState as VLLMConverterResponsesToChatCompletionsState,
)
from nemo_gym.responses.converter import (
    split_responses_input_output_items as split_responses_input_output_items,
)
from nemo_gym.responses.usage import usage_detail

_usage_detail = usage_detail
