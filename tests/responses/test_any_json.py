"""Any JSON is converted or raises an error of the gym's own tree, and never crashes."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.failures import EngineError, InputError
from nemo_gym.responses import (
    build_chat_request,
    convert_chat_request,
    convert_chat_to_response,
    convert_response_to_chat,
    engine_failure,
    tidy_chat_request,
)
from nemo_gym.responses._chat_stream import chat_chunks
from nemo_gym.responses._responses_stream import response_events

WORDS = """
type role content text input_text output_text input_image image_url file_id input_audio input_file file_data refusal
name call_id id arguments output summary encrypted_content reasoning reasoning_content tool_calls function parameters
strict message user assistant system tool function_call function_call_output tool_call_id format json_schema schema
verbosity effort extra_body chat_template_kwargs mode tools allowed_tools auto none required annotations logprobs
top_logprobs token logprob bytes usage prompt_tokens completion_tokens finish_reason stop length error detail code url
"""
FIELDS = """
input instructions tools tool_choice parallel_tool_calls include top_logprobs reasoning text metadata n temperature
max_output_tokens max_tokens messages response_format reasoning_effort
"""
MESSAGE_FIELDS = "content reasoning reasoning_content tool_calls refusal annotations function_call"

words = st.sampled_from([*WORDS.split(), "", "{}", "{", "<think>", "[1]"])
scalars = st.none() | st.booleans() | st.integers(-2, 5) | st.floats(-1, 1) | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
items = st.dictionaries(words, values, max_size=5)
bodies = st.dictionaries(st.sampled_from(FIELDS.split()), values, max_size=5)
conversations = st.builds(
    lambda body, key, given_items: {**body, key: given_items},
    bodies,
    st.sampled_from(["input", "messages"]),
    st.lists(items, max_size=4),
)


@given(bodies | conversations)
@pytest.mark.parametrize("convert", [build_chat_request, convert_chat_request, tidy_chat_request])
def test_a_request_is_converted_or_refused(
    convert: Callable[[dict[str, Any]], Any], body: dict[str, Any]
) -> None:
    with suppress(InputError):
        assert orjson.dumps(convert(body).body)


reasons = st.sampled_from(["stop", "length", "tool_calls"]) | values
choices = st.fixed_dictionaries(
    {
        "message": st.dictionaries(st.sampled_from(MESSAGE_FIELDS.split()), values) | values,
        "finish_reason": reasons,
    },
    optional={"logprobs": values, "stop_reason": values},
)
answers = st.fixed_dictionaries(
    {"choices": st.lists(choices, min_size=1, max_size=1) | values},
    optional={"usage": values, "error": values},
)


@given(answers)
def test_an_answer_is_converted_and_streamed_or_the_engines_error(answer: dict[str, Any]) -> None:
    with suppress(EngineError):
        response = convert_chat_to_response(
            answer, {"logprobs": True}, ids=lambda prefix: prefix, now=0
        ).response
        assert orjson.dumps(list(response_events(response)))
        assert orjson.dumps(list(chat_chunks(convert_response_to_chat(response))))


responses = st.fixed_dictionaries(
    {"output": st.lists(items, max_size=3) | values},
    optional={"status": values, "error": values, "usage": values},
)


@given(responses)
def test_a_response_is_converted_or_the_engines_error(response: dict[str, Any]) -> None:
    with suppress(EngineError):
        assert orjson.dumps(convert_response_to_chat(response))


@given(st.integers(200, 599), st.binary(max_size=40) | values.map(orjson.dumps))
def test_every_error_answer_has_a_meaning(status: int, body: bytes) -> None:
    assert engine_failure(status, {}, body).failure.message
