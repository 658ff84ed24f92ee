from typing import Any

import orjson
import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses import OPENAI, BadArguments, Converted, Dialect, ReasoningHistory, build_chat_request


def convert(*items: Any, **dialect: Any) -> Converted:
    return build_chat_request({"input": list(items)}, Dialect(**dialect))


def messages_of(*items: Any, **dialect: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = convert(*items, **dialect).body["messages"]
    return messages


def refused_fields(*items: Any, **dialect: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        convert(*items, **dialect)
    return str(caught.value.failure.param).split(", ")


def said(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [written(text)],
    }


def written(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": None}


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}


def called(call_id: str, name: str = "add", arguments: str = '{"a":1}') -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments}


def returned(call_id: str, output: Any = "3") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def chat_call(call_id: str, name: str = "add", arguments: str = '{"a":1}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_whole_turn_is_one_message() -> None:
    assert messages_of(
        thought("hm"), said("Let me see."), called("c1"), called("c2"), returned("c1"), returned("c2")
    ) == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning": "hm",
            "reasoning_content": "hm",
            "tool_calls": [chat_call("c1"), chat_call("c2")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "tool", "tool_call_id": "c2", "content": "3"},
    ]


def test_calls_in_turn_stay_in_turn() -> None:
    roles = [
        message["role"] for message in messages_of(called("c1"), returned("c1"), called("c2"), returned("c2"))
    ]
    assert roles == ["assistant", "tool", "assistant", "tool"]


def test_text_after_a_call_starts_a_message_so_that_the_order_stays() -> None:
    assert messages_of(called("c1"), said("And then?"), called("c2")) == [
        {"role": "assistant", "content": None, "tool_calls": [chat_call("c1")]},
        {"role": "assistant", "content": "And then?", "tool_calls": [chat_call("c2")]},
    ]


def test_reasoning_after_text_or_a_call_starts_a_message() -> None:
    assert [
        message.get("reasoning")
        for message in messages_of(said("a"), thought("hm"), called("c"), thought("so"))
    ] == [
        None,
        "hm",
        "so",
    ]


def test_two_messages_of_the_assistant_stay_two() -> None:
    assert [message["content"] for message in messages_of(said("a"), said("b"))] == ["a", "b"]


def test_an_assistant_message_without_calls_has_no_tool_calls_field() -> None:
    assert messages_of(said("a")) == [{"role": "assistant", "content": "a"}]


@pytest.mark.parametrize("empty", [None, ""])
def test_the_content_of_a_turn_that_only_calls_follows_the_dialect(empty: str | None) -> None:
    assert messages_of(called("c1"), empty_content=empty)[0]["content"] == empty


def test_two_parallel_calls_of_one_tool_are_both_kept() -> None:
    calls = messages_of(called("c1", arguments='{"a":1}'), called("c2", arguments='{"a":2}'))[0]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ['{"a":1}', '{"a":2}']


@pytest.mark.parametrize("role", ["user", "system", "developer"])
@pytest.mark.parametrize(
    "extra", [{}, {"type": "message"}, {"type": "message", "id": "m", "status": "completed"}]
)
def test_easy_and_stored_messages_are_alike(role: str, extra: Any) -> None:
    assert messages_of({"role": role, "content": "x", **extra}) == [{"role": role, "content": "x"}]


def test_the_developer_can_be_the_system() -> None:
    assert messages_of({"role": "developer", "content": "x"}, replace_developer_role_with_system=True) == [
        {"role": "system", "content": "x"}
    ]


def test_items_without_a_type_are_what_they_look_like() -> None:
    call, output = called("c1"), returned("c1")
    del call["type"], output["type"]
    assert messages_of(call, output) == messages_of(called("c1"), returned("c1"))


def test_texts_of_an_assistant_message_are_one_string() -> None:
    assert messages_of({"role": "assistant", "content": [written("a"), written("b")]})[0]["content"] == "ab"


def test_a_refusal_stays_a_part_in_its_place() -> None:
    parts = [written("a"), {"type": "refusal", "refusal": "no"}, written("b")]
    assert messages_of({"role": "assistant", "content": parts})[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "refusal", "refusal": "no"},
        {"type": "text", "text": "b"},
    ]


def test_the_output_of_a_tool_may_be_parts() -> None:
    output = [
        {"type": "input_text", "text": "seen"},
        {"type": "input_image", "image_url": "data:x", "detail": "low"},
    ]
    assert messages_of(returned("c1", output))[0]["content"] == [
        {"type": "text", "text": "seen"},
        {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
    ]


# --- Reasoning --------------------------------------------------------------------------------------------------


def test_reasoning_can_go_inline() -> None:
    items = thought("hm"), said("yes")
    assert messages_of(*items, reasoning_history=ReasoningHistory.INLINE) == [
        {"role": "assistant", "content": "<think>hm</think>yes"}
    ]
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    assert messages_of(thought("hm"), refusal, reasoning_history=ReasoningHistory.INLINE)[0]["content"] == [
        {"type": "text", "text": "<think>hm</think>"},
        {"type": "refusal", "refusal": "no"},
    ]


def test_reasoning_can_be_left_out_and_that_is_noted() -> None:
    converted = convert(thought("hm"), said("yes"), drop_input_reasoning_items=True)
    assert converted.body["messages"] == [{"role": "assistant", "content": "yes"}]
    assert [(note.code, note.field) for note in converted.notes] == [("dropped_reasoning", "input[0]")]


def test_openai_gets_no_reasoning_and_its_own_arguments() -> None:
    converted = build_chat_request({"input": [thought("hm"), called("c1", arguments="{oops")]}, OPENAI)
    assert converted.body["messages"] == [
        {"role": "assistant", "content": None, "tool_calls": [chat_call("c1", arguments="{oops")]}
    ]
    assert [note.code for note in converted.notes] == ["dropped_reasoning"]


def test_the_reasoning_itself_goes_before_its_summary() -> None:
    item = {**thought("in short"), "content": [{"type": "reasoning_text", "text": "at length"}]}
    assert messages_of(item)[0]["reasoning"] == "at length"


def test_an_empty_reasoning_item_says_nothing() -> None:
    assert messages_of({"type": "reasoning", "summary": []}, said("a")) == messages_of(said("a"))


def test_reasoning_that_only_its_provider_can_read_is_refused() -> None:
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    assert refused_fields(sealed) == ["input[0].encrypted_content"]
    assert messages_of(sealed, said("a"), drop_input_reasoning_items=True) == messages_of(said("a"))
    converted = convert({**thought("hm"), "encrypted_content": "gAAA"}, said("a"))
    assert [note.code for note in converted.notes] == ["unused_encrypted_reasoning"]


# --- Arguments --------------------------------------------------------------------------------------------------

MALFORMED = ['{"a": 1', "", "null", "[1]", '"{}"', "{'a': 1}", "[" * 100_000]


@pytest.mark.parametrize("arguments", MALFORMED)
def test_malformed_arguments_are_replaced_by_an_object_and_that_is_noted(arguments: str) -> None:
    converted = convert(called("c1"), called("c2", arguments=arguments))
    sent = converted.body["messages"][0]["tool_calls"][1]["function"]["arguments"]
    assert orjson.loads(sent) == ({"_raw": arguments} if arguments else {})
    assert [(note.code, note.field) for note in converted.notes] == [
        ("sanitised_arguments", "input[1].arguments")
    ]


def test_what_becomes_of_malformed_arguments_is_a_choice() -> None:
    def sent(policy: BadArguments) -> Any:
        return messages_of(called("c1", arguments="{oops"), bad_arguments=policy)[0]["tool_calls"][0][
            "function"
        ]["arguments"]

    assert sent(BadArguments.EMPTY) == "{}"
    assert sent(BadArguments.KEEP) == "{oops"
    assert refused_fields(called("c1", arguments="{oops"), bad_arguments=BadArguments.REFUSE) == [
        "input[0].arguments"
    ]


@pytest.mark.parametrize("arguments", ["{}", '{"a": NaN}', '{"a": "\\ud800"}', ' {"b" : 1 } '])
def test_arguments_that_an_engine_can_parse_keep_every_character(arguments: str) -> None:
    converted = convert(called("c1", arguments=arguments))
    assert converted.body["messages"][0]["tool_calls"][0]["function"]["arguments"] == arguments
    assert converted.notes == ()


# --- Token fields -----------------------------------------------------------------------------------------------

TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}


def test_history_carries_text_only() -> None:
    assert messages_of({**said("a"), **TOKENS}) == [{"role": "assistant", "content": "a"}]


def test_token_fields_can_be_kept_for_engines_that_check_prefixes() -> None:
    assert messages_of(said("a"), {**called("c1"), **TOKENS}, keep_token_ids=True) == [
        {"role": "assistant", "content": "a", "tool_calls": [chat_call("c1")], **TOKENS}
    ]


# --- Chat-shaped items ------------------------------------------------------------------------------------------


def test_chat_messages_among_the_items_are_understood() -> None:
    chat = [
        {"role": "user", "content": "1+2?"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [chat_call("c1")]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]
    assert messages_of(*chat) == chat


# --- Refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ("text", "input[0]"),
        ({"type": "web_search_call", "id": "ws"}, "input[0].type"),
        ({"type": "item_reference", "id": "x"}, "input[0].type"),
        ({"content": "x"}, "input[0].type"),
        ({"role": "critic", "content": "x"}, "input[0].role"),
        ({"role": "user", "content": None}, "input[0].content"),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
            "input[0].content[0].file_id",
        ),
        ({"role": "assistant", "content": "x", "phase": "commentary"}, "input[0].phase"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "input[0].call_id"),
        ({"type": "function_call", "name": "f", "call_id": "c", "arguments": {}}, "input[0].arguments"),
        ({**called("c"), "namespace": "n"}, "input[0].namespace"),
        ({"type": "function_call_output", "call_id": "c", "output": {"a": 1}}, "input[0].output"),
        ({"type": "function_call_output", "output": "x"}, "input[0].call_id"),
        ({"type": "reasoning", "summary": ["hm"]}, "input[0].summary"),
        (
            {"role": "assistant", "reasoning": "a", "reasoning_content": "b", "content": ""},
            "input[0].reasoning_content",
        ),
    ],
)
def test_an_item_that_chat_cannot_hold_is_named(item: Any, field: str) -> None:
    assert refused_fields(item) == [field]
