from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymEasyInputMessage,
    NeMoGymFunctionCallOutput,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseFunctionToolCall,
    NeMoGymResponseFunctionToolCallForTraining,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseReasoningItem,
)
from nemo_gym.responses_converter import (
    ResponsesConverter,
    VLLMConverter,
    split_responses_input_output_items,
)

TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}

plain = ResponsesConverter(return_token_id_information=False)
training = ResponsesConverter(return_token_id_information=True)


def chat_of(**message: Any) -> NeMoGymChatCompletion:
    return NeMoGymChatCompletion.model_validate(
        {
            "id": "chatcmpl-1",
            "created": 1,
            "model": "policy",
            "choices": [{"message": {"role": "assistant", **message}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
        }
    )


def test_both_names_are_one_class() -> None:
    assert VLLMConverter is ResponsesConverter


def test_a_typed_request_becomes_a_typed_chat_request() -> None:
    params = NeMoGymResponseCreateParamsNonStreaming.model_validate(
        {
            "input": [
                {"role": "user", "content": "hi"},
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"role": "assistant", "content": "yes"},
            ],
            "instructions": "Be brief.",
            "max_output_tokens": 512,
            "tools": [TOOL],
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        }
    )
    chat = plain.responses_to_chat_completion_create_params(params)
    assert isinstance(chat, NeMoGymChatCompletionCreateParamsNonStreaming)
    assert [message["role"] for message in chat.messages] == ["system", "user", "assistant"]
    assert chat.messages[2].get("content") == "<think>hm</think>yes"
    assert chat.max_tokens == 512
    assert chat.tools is not None
    assert chat.response_format is not None
    assert chat.response_format["json_schema"]["schema"] == {"type": "object"}


def test_a_request_survives_there_and_back() -> None:
    params = NeMoGymResponseCreateParamsNonStreaming.model_validate(
        {"input": [{"role": "user", "content": "hi"}], "tools": [TOOL], "temperature": 0.5}
    )
    back = plain.chat_completion_to_responses_create_params(
        plain.responses_to_chat_completion_create_params(params)
    )
    assert isinstance(back, NeMoGymResponseCreateParamsNonStreaming)
    assert (back.tools, back.temperature) == (params.tools, 0.5)


def test_a_request_that_chat_lacks_names_its_fields() -> None:
    params = NeMoGymResponseCreateParamsNonStreaming(input="hi", previous_response_id="resp_1")
    with pytest.raises(InputError, match="previous_response_id"):
        plain.responses_to_chat_completion_create_params(params)


def test_token_fields_of_the_history_are_carried_where_they_are_wanted() -> None:
    params = NeMoGymResponseCreateParamsNonStreaming.model_validate(
        {"input": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes", **TOKENS}]}
    )
    assert (
        dict(training.responses_to_chat_completion_create_params(params).messages[1]).items()
        >= TOKENS.items()
    )
    assert "prompt_token_ids" not in plain.responses_to_chat_completion_create_params(params).messages[1]


def test_an_answer_becomes_typed_items_in_order() -> None:
    chat = chat_of(content="<think>hm</think>yes", tool_calls=[CALL])
    items = plain.postprocess_chat_response(chat.choices[0])
    assert [type(item) for item in items] == [
        NeMoGymResponseReasoningItem,
        NeMoGymResponseOutputMessage,
        NeMoGymResponseFunctionToolCall,
    ]


def test_reasoning_is_text_without_a_parser() -> None:
    converter = ResponsesConverter(return_token_id_information=False, uses_reasoning_parser=False)
    (message,) = converter.postprocess_assistant_message_dict(
        {"role": "assistant", "content": "<think>hm</think>yes"}
    )
    assert isinstance(message, NeMoGymResponseOutputMessage)
    assert message.content[0].model_dump()["text"] == "<think>hm</think>yes"


def test_token_fields_of_an_answer_are_on_its_last_item() -> None:
    items = training.postprocess_assistant_message_dict(
        {"role": "assistant", "content": "yes", "tool_calls": [CALL], **TOKENS}
    )
    assert isinstance(items[0], NeMoGymResponseOutputMessage)
    last = items[-1]
    assert isinstance(last, NeMoGymResponseFunctionToolCallForTraining)
    assert last.generation_token_ids == [2]


def test_a_whole_answer_becomes_a_typed_response() -> None:
    params = NeMoGymResponseCreateParamsNonStreaming(input="hi", temperature=0.5)
    response = training.chat_completion_to_response(params, chat_of(content="yes", **TOKENS))
    assert isinstance(response, NeMoGymResponse)
    assert (response.output_text, response.temperature, response.status) == ("yes", 0.5, "completed")
    assert response.usage is not None
    assert response.usage.total_tokens == 14
    assert response.output[-1].model_dump()["generation_token_ids"] == [2]


TRANSCRIPT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": None},
    {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "3"},
    {"role": "assistant", "content": "three"},
]


def test_a_transcript_becomes_typed_items() -> None:
    items = plain.chat_completions_messages_to_responses_items(TRANSCRIPT)
    assert [type(item) for item in items] == [
        NeMoGymEasyInputMessage,
        NeMoGymEasyInputMessage,
        NeMoGymResponseOutputMessage,
        NeMoGymResponseFunctionToolCall,
        NeMoGymFunctionCallOutput,
        NeMoGymResponseOutputMessage,
    ]


def test_a_transcript_with_an_unknown_role_names_it() -> None:
    with pytest.raises(InputError, match=r"messages\[0\].role"):
        plain.chat_completions_messages_to_responses_items([{"role": "critic", "content": "x"}])


def test_an_episode_is_cut_where_the_model_first_spoke() -> None:
    items = plain.chat_completions_messages_to_responses_items(TRANSCRIPT)
    given, followed = split_responses_input_output_items(items)
    assert (len(given), len(followed)) == (2, 4)
    assert split_responses_input_output_items([]) == ([], [])


@pytest.mark.parametrize(
    ("item", "is_generated"),
    [
        ({"role": "user", "content": "x"}, False),
        ({"role": "assistant", "content": "x"}, True),
        ({"type": "reasoning", "summary": []}, True),
        ({"type": "function_call", "name": "f"}, True),
        ({"type": "web_search_call"}, True),
        ({"type": "function_call_output"}, False),
        ({"type": "mcp_approval_response"}, False),
    ],
)
def test_what_a_model_generates(item: dict[str, Any], is_generated: bool) -> None:
    given, followed = split_responses_input_output_items([item])
    assert (len(given), len(followed)) == ((0, 1) if is_generated else (1, 0))
