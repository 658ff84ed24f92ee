from typing import Any, cast

import pytest
from openai.types.chat import ChatCompletion as OpenAIChatCompletion
from pydantic import ValidationError

from nemo_gym.responses.chat_schemas import (
    ChatChoice,
    ChatCompletion,
    ChatCompletionCreateParams,
    ChatCompletionMessageForTraining,
    MessageCustomToolCall,
    MessageToolCall,
)

TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}

ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1760000000,
    "model": "policy",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "stop_reason": None,
            "token_ids": [2],
            "message": {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [
                    CALL,
                    {"id": "call_2", "type": "custom", "custom": {"name": "shell", "input": "ls"}},
                ],
            },
            "logprobs": {
                "content": [{"token": "token_id:2", "logprob": -0.1, "bytes": None, "top_logprobs": []}]
            },
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    "prompt_token_ids": [1],
}


def test_an_answer_survives_validation_and_dump() -> None:
    answer = ChatCompletion.model_validate(ANSWER)
    assert answer.model_dump(exclude_unset=True) == ANSWER
    assert ChatCompletion.model_validate_json(answer.model_dump_json()) == answer


def test_an_answer_is_read_by_attributes() -> None:
    choice = ChatCompletion.model_validate(ANSWER).choices[0]
    calls = choice.message.tool_calls
    assert calls is not None
    assert isinstance(calls[0], MessageToolCall)
    assert calls[0].function.name == "add"
    assert isinstance(calls[1], MessageCustomToolCall)
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert choice.logprobs.content[0].logprob == -0.1


def test_an_object_of_the_openai_package_is_accepted() -> None:
    theirs = OpenAIChatCompletion.model_validate(ANSWER)
    for answer in (ChatCompletion.model_validate(theirs), ChatCompletion.model_validate(theirs.model_dump())):
        assert answer.choices[0].message.tool_calls is not None
        assert answer.model_dump()["prompt_token_ids"] == [1]


def test_an_older_engine_s_call_without_type_is_a_function_call() -> None:
    message = {"content": "", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    calls = ChatChoice.model_validate({"message": message}).message.tool_calls
    assert calls is not None
    assert calls[0].model_dump(exclude_unset=True)["type"] == "function"


def test_a_message_with_tokens_is_the_training_twin() -> None:
    choice = ChatChoice.model_validate({"message": {"content": "hi", **TOKENS}})
    assert isinstance(choice.message, ChatCompletionMessageForTraining)
    assert choice.message.generation_token_ids == [2]


def test_a_message_with_some_token_fields_must_have_all() -> None:
    with pytest.raises(ValidationError, match="generation_log_probs"):
        ChatChoice.model_validate({"message": {"content": "hi", "prompt_token_ids": [1]}})


REQUEST: dict[str, Any] = {
    "messages": [
        {"role": "developer", "content": "be brief"},
        {"role": "system", "content": [{"type": "text", "text": "be kind"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:…"}},
                {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f"}},
                {"type": "video_url", "video_url": {"url": "data:…"}},
            ],
        },
        {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [CALL], **TOKENS},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ],
    "model": "policy",
    "tools": [
        {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "shell"}},
    ],
    "temperature": 1.0,
    "stop": ["\n"],
    "top_k": 20,
    "chat_template_kwargs": {"enable_thinking": True},
}


def test_a_request_survives_validation_and_dump_with_the_engine_s_own_fields() -> None:
    request = ChatCompletionCreateParams.model_validate(REQUEST)
    assert request.model_dump(exclude_unset=True) == REQUEST
    assert ChatCompletionCreateParams.model_validate_json(request.model_dump_json()) == request
    assert cast(Any, request.messages[3])["tool_calls"][0]["function"]["name"] == "add"


@pytest.mark.parametrize(
    ("message", "location"),
    [
        ({"role": "user"}, ("messages", 0, "UserMessageParam", "content")),
        ({"role": "tool", "content": "3"}, ("messages", 0, "ToolMessageParam", "tool_call_id")),
        ({"role": "robot", "content": "3"}, ("messages", 0)),
        (
            {"role": "assistant", "content": "a", "generation_token_ids": [1], "generation_log_probs": [0.0]},
            ("messages", 0, "AssistantMessageForTrainingParam", "prompt_token_ids"),
        ),
        (
            {"role": "assistant", "content": "a", **TOKENS, "generation_token_ids": {"no": "list"}},
            ("messages", 0, "AssistantMessageForTrainingParam", "generation_token_ids"),
        ),
    ],
)
def test_a_bad_message_is_named(message: dict[str, Any], location: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as raised:
        ChatCompletionCreateParams.model_validate({"messages": [message]})
    assert [error["loc"] for error in raised.value.errors()] == [location]
