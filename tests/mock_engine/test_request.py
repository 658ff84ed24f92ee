from typing import Any

import pytest

from nemo_gym.mock_engine.refusals import Refusal
from nemo_gym.mock_engine.request import ToolChoice, parse_chat, parse_completion
from tests.mock_engine.wire import ADD, USER


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": [USER], **fields}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tools": []}, "`tools` must not be an empty array"),
        ({"tool_choice": "auto"}, "When using `tool_choice`, `tools` must be set."),
        ({"tools": [ADD], "tool_choice": {"type": "function", "function": {"name": "sub"}}}, "names no tool"),
        ({"messages": []}, "at least one message"),
        ({"max_tokens": "many"}, "int_parsing"),
        ({"max_tokens": -186}, "max_tokens must be at least 1, got -186."),
        ({"max_completion_tokens": 0}, "max_tokens must be at least 1, got 0."),
        ({"top_logprobs": 5}, "`logprobs` must be set to true"),
        ({"logprobs": True, "top_logprobs": 21}, "between 0 and 20"),
        ({"stream_options": {"include_usage": True}}, "only be defined when `stream=True`"),
        ({"response_format": {"type": "grammar"}}, "is not understood"),
        ({"structured_outputs": {"regex": "a+"}}, "regex"),
        ({"stop": [1]}, "`stop` must be"),
        ({"n": 0}, "n must be at least 1"),
    ],
)
def test_what_vllm_refuses_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        parse_chat(chat(**fields))


@pytest.mark.parametrize("arguments", ["{", None, {"a": 1}])
def test_an_earlier_call_with_broken_arguments_is_refused_on_every_later_turn(arguments: object) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    with pytest.raises(Refusal, match="'add' are not valid JSON"):
        parse_chat({"messages": [USER, {"role": "assistant", "tool_calls": [call]}]})


def test_tool_choice_follows_the_tools_unless_given() -> None:
    assert parse_chat(chat()).tool_choice is ToolChoice.NONE
    assert parse_chat(chat(tools=[ADD])).tool_choice is ToolChoice.AUTO
    assert parse_chat(chat(tools=[ADD], tool_choice="none")).tool_choice is ToolChoice.NONE
    assert parse_chat(chat(tools=[ADD], tool_choice="required")).tool_choice is ToolChoice.REQUIRED
    assert parse_chat(chat(tool_choice="none")).tool_choice is ToolChoice.NONE


def test_null_top_logprobs_means_no_logprobs() -> None:
    assert parse_chat(chat(logprobs=True)).wants_logprobs
    assert parse_chat(chat(logprobs=True, top_logprobs=0)).wants_logprobs
    assert not parse_chat(chat(logprobs=True, top_logprobs=None)).wants_logprobs


def test_hidden_reasoning_takes_ids_and_logprobs_along() -> None:
    asked = parse_chat(chat(logprobs=True, return_token_ids=True, include_reasoning=False))
    assert (asked.wants_ids, asked.wants_logprobs, asked.shows_reasoning) == (False, False, False)


@pytest.mark.parametrize(
    "fields", [{"reasoning_effort": "none"}, {"chat_template_kwargs": {"enable_thinking": False}}]
)
def test_thinking_can_be_turned_off(fields: dict[str, Any]) -> None:
    assert not parse_chat(chat(**fields)).thinks


def test_a_completion_takes_text_or_ids_and_has_a_budget_of_16() -> None:
    assert parse_completion({"prompt": "Hello"}).max_tokens == 16
    assert parse_completion({"prompt": [1, 2]}).prompt_ids == [1, 2]
    for prompt in (None, [], ["a", "b"]):
        with pytest.raises(Refusal, match="prompt"):
            parse_completion({"prompt": prompt})
