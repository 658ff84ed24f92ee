from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses import BadArguments, Dialect, ReasoningHistory, tidy_chat_request

USER = {"role": "user", "content": "hi"}


def call(arguments: str, call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def tidy_messages(*messages: Any, **dialect: Any) -> list[dict[str, Any]]:
    tidied: list[dict[str, Any]] = tidy_chat_request({"messages": list(messages)}, Dialect(**dialect)).body[
        "messages"
    ]
    return tidied


def refused_field(body: dict[str, Any], **dialect: Any) -> str | None:
    with pytest.raises(InputError) as caught:
        tidy_chat_request({"messages": [USER], **body}, Dialect(**dialect))
    return caught.value.failure.param


def test_a_request_that_is_in_order_is_passed_on_and_never_changed() -> None:
    body = {
        "model": "m",
        "messages": [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [call("{}"), call('{"a":1}', "c2")]},
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "top_k": 3,
        "unheard_of": 1,
    }
    before = repr(body)
    assert tidy_chat_request(body) == (body, ())
    assert repr(body) == before


def test_malformed_arguments_of_any_turn_are_replaced() -> None:
    assistant = {"role": "assistant", "content": "", "tool_calls": [call("{}"), call("{oops", "c2")]}
    converted = tidy_chat_request({"messages": [USER, assistant]})
    calls = converted.body["messages"][1]["tool_calls"]
    assert [part["function"]["arguments"] for part in calls] == ["{}", '{"_raw":"{oops"}']
    assert [note.field for note in converted.notes] == ["messages[1].tool_calls[1].function.arguments"]
    assert assistant["tool_calls"][1] == call("{oops", "c2")


def test_malformed_arguments_can_end_the_episode() -> None:
    assistant = {"role": "assistant", "tool_calls": [call("{oops")]}
    assert (
        refused_field({"messages": [assistant]}, bad_arguments=BadArguments.REFUSE)
        == "messages[0].tool_calls[0].function.arguments"
    )


@pytest.mark.parametrize("calls", [None, []])
def test_an_empty_list_of_calls_is_left_out(calls: Any) -> None:
    assert tidy_messages({"role": "assistant", "content": "a", "tool_calls": calls}) == [
        {"role": "assistant", "content": "a"}
    ]


def test_content_is_never_missing() -> None:
    assert tidy_messages({"role": "assistant"})[0]["content"] == ""
    assert tidy_messages({"role": "assistant", "tool_calls": [call("{}")]})[0]["content"] is None
    assert (
        tidy_messages({"role": "assistant", "tool_calls": [call("{}")]}, empty_content="")[0]["content"] == ""
    )


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_sent_under_both_names(name: str) -> None:
    assert tidy_messages({"role": "assistant", "content": "a", name: "hm"}) == [
        {"role": "assistant", "content": "a", "reasoning": "hm", "reasoning_content": "hm"}
    ]


def test_reasoning_follows_the_dialect() -> None:
    message = {"role": "assistant", "content": "a", "reasoning": "hm"}
    assert (
        tidy_messages(message, reasoning_history=ReasoningHistory.INLINE)[0]["content"]
        == "<think>hm</think>a"
    )
    converted = tidy_chat_request({"messages": [message]}, Dialect(drop_input_reasoning_items=True))
    assert converted.body["messages"] == [{"role": "assistant", "content": "a"}]
    assert [note.code for note in converted.notes] == ["dropped_reasoning"]


def test_roles_follow_the_dialect() -> None:
    developer = {"role": "developer", "content": "x"}
    assert tidy_messages(developer) == [developer]
    assert tidy_messages(developer, replace_developer_role_with_system=True) == [
        {"role": "system", "content": "x"}
    ]


def test_token_fields_are_sent_only_to_engines_that_require_them() -> None:
    message = {"role": "assistant", "content": "a", "generation_token_ids": [1]}
    assert tidy_messages(message) == [{"role": "assistant", "content": "a"}]
    assert tidy_messages(message, keep_token_ids=True) == [message]


def test_no_word_about_tools_without_tools() -> None:
    body = {"messages": [USER], "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    assert tidy_chat_request(body).body == {"messages": [USER]}
    assert refused_field({"tools": [], "tool_choice": "required"}) == "tool_choice"


def test_top_logprobs_are_a_number() -> None:
    body = tidy_chat_request({"messages": [USER], "logprobs": True, "top_logprobs": None}).body
    assert body["top_logprobs"] == 0


def test_the_bound_goes_by_the_engines_name() -> None:
    assert tidy_chat_request({"messages": [USER], "max_tokens": 5}).body["max_completion_tokens"] == 5
    assert refused_field({"max_tokens": 5, "max_completion_tokens": 6}) == "max_completion_tokens, max_tokens"


def test_the_stream_is_the_servers_and_extras_are_merged() -> None:
    body = {"messages": [USER], "stream": True, "metadata": {"extra_body": '{"top_k": 1}'}}
    assert tidy_chat_request(body).body == {"messages": [USER], "top_k": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"n": 2}, "n"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": ["hi"]}, "messages[0].role"),
    ],
)
def test_what_cannot_be_answered_is_named(body: dict[str, Any], field: str) -> None:
    assert refused_field(body) == field
