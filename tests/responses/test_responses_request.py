from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses import convert_chat_request

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def params_of(**body: Any) -> dict[str, Any]:
    return convert_chat_request({"messages": [USER], **body}).body


def items_of(*messages: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = params_of(messages=list(messages))["input"]
    return items


def refused_fields(**body: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        params_of(**body)
    return str(caught.value.failure.param).split(", ")


def test_what_chat_does_not_store_is_not_stored() -> None:
    assert params_of() == {"input": [{"type": "message", **USER}], "store": False}
    assert params_of(store=True)["store"] is True


def test_a_turn_becomes_its_items_in_order_and_without_ids() -> None:
    assistant = {
        "role": "assistant",
        "content": "a",
        "reasoning": "hm",
        "reasoning_content": "hm",
        "tool_calls": [CALL],
    }
    tool = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3"}]}
    assert items_of(assistant, tool) == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "3"}]},
    ]


@pytest.mark.parametrize("content", [None, ""])
def test_a_turn_that_says_nothing_is_still_a_turn(content: Any) -> None:
    assert items_of({"role": "assistant", "content": content}) == [
        {"type": "message", "role": "assistant", "content": ""}
    ]
    assert (
        items_of({"role": "assistant", "content": content, "tool_calls": [CALL]})[0]["type"]
        == "function_call"
    )


def test_a_refusal_in_its_own_field_becomes_a_part() -> None:
    assert items_of({"role": "assistant", "content": "a", "refusal": "no"})[0]["content"] == [
        {"type": "output_text", "text": "a"},
        {"type": "refusal", "refusal": "no"},
    ]


def test_token_fields_go_to_the_last_item_of_the_turn() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
    message, call = items_of({"role": "assistant", "content": "a", "tool_calls": [CALL], **tokens})
    assert "generation_token_ids" not in message
    assert {key: call[key] for key in tokens} == tokens


def test_parameters_are_renamed() -> None:
    params = params_of(
        max_tokens=5,
        reasoning_effort="low",
        verbosity="high",
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        logprobs=True,
        top_logprobs=2,
        metadata={"a": "b"},
        seed=1,
        n=1,
        stream=True,
    )
    assert params == {
        "input": [{"type": "message", **USER}],
        "store": False,
        "max_output_tokens": 5,
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "high", "format": {"type": "json_schema", "name": "n", "schema": {}}},
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
        "metadata": {"a": "b"},
        "seed": 1,
    }


def test_every_field_at_fault_is_named_at_once() -> None:
    assert refused_fields(
        messages=[
            {"role": "critic", "content": "x"},
            {"role": "user", "content": None},
            {"role": "tool", "content": "x"},
            {"role": "assistant", "content": "x", "audio": {"id": "a"}},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {}}]},
        ],
        n=2,
        audio={"voice": "alloy"},
        functions=[{"name": "f"}],
        response_format={"type": "grammar"},
        max_tokens=1,
        max_completion_tokens=2,
        tool_choice="required",
        unheard_of=1,
    ) == [
        "audio",
        "functions",
        "max_completion_tokens",
        "max_tokens",
        "messages[0].role",
        "messages[1].content",
        "messages[2].tool_call_id",
        "messages[3].audio",
        "messages[4].tool_calls[0].type",
        "n",
        "response_format.type",
        "tool_choice",
        "unheard_of",
    ]


@pytest.mark.parametrize("messages", [None, [], "hi", ["hi"]])
def test_messages_are_a_list_of_messages(messages: Any) -> None:
    assert refused_fields(messages=messages)[0].startswith("messages")
