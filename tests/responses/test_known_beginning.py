"""A conversation of which a part is known is converted as one of which nothing is."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses import VLLM, build_chat_request
from nemo_gym.responses.known_beginning import KnownBeginning

ASKED = {"role": "user", "content": "How warm is it?"}
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I look."}]}
CALL = {"type": "function_call", "call_id": "1", "name": "look", "arguments": '{"at": "Rome"}'}
OTHER_CALL = {**CALL, "call_id": "2"}
OUTPUT = {"type": "function_call_output", "call_id": "1", "output": "20"}
SAID = {"role": "assistant", "content": [{"type": "output_text", "text": "20 degrees."}]}
TALK = [ASKED, THOUGHT, CALL, OTHER_CALL, OUTPUT, {**OUTPUT, "call_id": "2"}, THOUGHT, SAID, ASKED]


def messages_of(known: KnownBeginning | None, items: list[Any], **params: Any) -> list[Any]:
    copied = copy.deepcopy(items)  # as parsed from the next request
    messages: list[Any] = build_chat_request({"input": copied, **params}, VLLM, known).body["messages"]
    return messages


def test_requests_that_grow_are_converted_as_whole_ones() -> None:
    known = KnownBeginning()
    for end in range(1, len(TALK) + 1):
        assert messages_of(known, TALK[:end]) == messages_of(None, TALK[:end])
    assert known.count_known(copy.deepcopy(TALK), None, VLLM) == len(TALK)


def test_known_messages_are_the_same_objects() -> None:
    known = KnownBeginning()
    before, after = messages_of(known, TALK[:5]), messages_of(known, TALK)
    assert all(was is now for was, now in zip(before[:3], after, strict=False))


@pytest.mark.parametrize(
    "second",
    [
        [{**ASKED, "content": "How cold is it?"}, *TALK[1:]],
        TALK[:3],
        [*TALK[:4], {**OUTPUT, "output": "21"}],
        [ASKED, *TALK],
    ],
)
def test_another_conversation_is_converted_anew(second: list[Any]) -> None:
    known = KnownBeginning()
    messages_of(known, TALK)
    assert messages_of(known, second) == messages_of(None, second)
    assert messages_of(known, TALK) == messages_of(None, TALK)


def test_instructions_and_dialect_belong_to_the_beginning() -> None:
    known = KnownBeginning()
    for instructions in ("Be brief.", "Be exact.", None):
        assert messages_of(known, TALK, instructions=instructions) == messages_of(
            None, TALK, instructions=instructions
        )
    assert known.count_known(TALK, None, replace(VLLM, reasoning_fields=("reasoning",))) == 0


def test_notes_and_problems_come_with_every_request() -> None:
    known, dropping = KnownBeginning(), replace(VLLM, drop_input_reasoning_items=True)
    for _ in range(2):
        notes = build_chat_request({"input": TALK}, dropping, known).notes
        assert [note.code for note in notes] == ["dropped_reasoning"] * 2
    for _ in range(2):
        with pytest.raises(InputError, match=r"input\[1\]"):
            build_chat_request({"input": [ASKED, {"type": "unknown"}]}, VLLM, known)
