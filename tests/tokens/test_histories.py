"""Digests of messages, and the reasoning texts of a request."""

from __future__ import annotations

from typing import Any

from nemo_gym.responses import VLLM
from nemo_gym.tokens.histories import KnownDigests, digest_history, digest_message, list_reasoning_texts

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_an_answer_is_recognised_when_it_comes_back() -> None:
    answers: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"content": None, "tool_calls": [CALL]}, {"content": "", "tool_calls": [CALL]}),
        (
            {"content": "hi", "reasoning": "hm"},
            {"content": "hi", "reasoning": "hm", "reasoning_content": "hm"},
        ),
        ({"content": "<think>hm</think>hi"}, {"content": "hi", "reasoning_content": "hm"}),
    ]
    for was, now in answers:
        assert digest_message({"role": "assistant", **was}).says_same(
            digest_message({"role": "assistant", **now})
        )
        assert (
            digest_message({"role": "assistant", **was}).has_reasoning
            is digest_message({"role": "assistant", **now}).has_reasoning
        )


def test_tools_are_part_of_what_is_said() -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert digest_history({"messages": messages}) != digest_history({"messages": messages, "tools": [CALL]})


def test_thoughts_are_found_in_fields_and_in_the_text() -> None:
    messages = [
        {"role": "user", "content": "<think>not mine</think>"},
        {"role": "assistant", "content": "<think> inline </think>x", "reasoning": ""},
        {"role": "assistant", "content": "y", "reasoning_content": "field"},
    ]
    assert list_reasoning_texts(messages) == ["inline", "field"]


def test_digests_of_the_same_messages_are_known() -> None:
    known, talk = KnownDigests(), [{"role": "user", "content": text} for text in "abc"]
    for body in (talk[:2], talk, [talk[0], {"role": "user", "content": "x"}, talk[2]], talk[:1], []):
        assert digest_history({"messages": body}, VLLM, known) == digest_history({"messages": body})
        assert known.size == sum(len(message["content"]) for message in body)
