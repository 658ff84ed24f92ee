from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.responses.turns import join_item_texts, read_answer_turns, read_item_turns, read_request_items

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1,"b":"ü"}'}}
SPELLED = {**CALL, "function": {"name": "f", "arguments": '{ "b": "\\u00fc", "a": 1.0 }'}}
ANSWERS: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (
        {"choices": [{"message": {"content": "Hi.\n", "reasoning": "think", "tool_calls": [CALL]}}]},
        [{"role": "assistant", "content": [{"type": "text", "text": "Hi."}], "tool_calls": [SPELLED]}],
    ),
    (
        {"choices": [{"message": {"content": "<think>\nx</think>Hi."}}]},
        [{"role": "assistant", "content": " Hi."}],
    ),
    (
        {
            "content": [
                {"type": "thinking", "thinking": "x"},
                {"type": "text", "text": "Hi."},
                {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1, "b": 2}},
            ]
        },
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Hi.", "cache_control": {}},
                    {"type": "tool_use", "id": "c", "name": "f", "input": {"b": 2, "a": 1}},
                ],
            }
        ],
    ),
    (
        {
            "output": [
                {"type": "reasoning", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
                {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "x"},
            ]
        },
        [
            {"role": "assistant", "content": "Hi."},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}', "id": "x"},
            {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "x", "status": "completed"},
        ],
    ),
]


@pytest.mark.parametrize(("answer", "history"), ANSWERS)
def test_an_answer_and_its_copy_in_a_history_have_equal_turns(
    answer: dict[str, Any], history: list[dict[str, Any]]
) -> None:
    copied = [turn for item in history for turn in read_item_turns(item)]
    assert list(read_answer_turns(answer)) == copied
    assert copied
    assert all(turn.is_answer for turn in copied)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}),
        ({"role": "tool", "content": "a"}, {"role": "tool", "content": "a "}),
        ({"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "image", "source": 1}]}),
        (
            {"type": "function_call", "name": "f", "arguments": "{}"},
            {"type": "function_call", "name": "g", "arguments": "{}"},
        ),
    ],
)
def test_other_turns_have_other_digests(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert read_item_turns(one) != read_item_turns(other)


def test_instructions_and_reasoning_are_no_turns() -> None:
    for item in ({"role": "system", "content": "x"}, {"type": "reasoning", "summary": []}, "text", None):
        assert read_item_turns(item) == ()


def test_a_text_is_one_message() -> None:
    assert read_request_items("responses", {"input": "hi"}) == [{"role": "user", "content": "hi"}]
    assert read_request_items("chat", {"messages": None}) == []


def test_the_text_of_items_has_the_outputs_of_tools() -> None:
    result = {"type": "tool_result", "content": [{"type": "text", "text": "b"}]}
    items = [{"content": "a"}, {"content": [result, {"type": "text", "text": "c"}]}, {"output": "d"}]
    assert join_item_texts(items) == "a\nb\nc\nd"
