"""Reasoning of answers comes back into the turns of clients that send none."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.responses.dialects import VLLM
from nemo_gym.tokens.thoughts import SampledThoughts

USER = {"role": "user", "content": "2 + 2?"}
SAYS = {"role": "assistant", "content": "It is 4."}
THINKS = {**SAYS, "reasoning": "Two and two."}
BOTH = {"reasoning": "Two and two.", "reasoning_content": "Two and two."}


def call(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}


def calls(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call(name, arguments)]}


def remembering(messages: list[dict[str, Any]], answer: dict[str, Any], **limits: int) -> SampledThoughts:
    thoughts = SampledThoughts(**limits)
    thoughts.add(messages, answer, VLLM)
    return thoughts


@pytest.mark.parametrize(
    "copied",
    ["It is 4.", " It is 4.\n", [{"type": "text", "text": "It is 4."}]],
    ids=["same", "spaces", "parts"],
)
def test_a_copied_answer_gets_its_reasoning(copied: Any) -> None:
    said = {"role": "assistant", "content": copied}
    restored = remembering([USER], THINKS).restore_messages([USER, said, USER], VLLM)
    assert restored == [USER, {**said, **BOTH}, USER]


def test_reasoning_in_the_text_comes_back_with_the_text() -> None:
    whole = {"role": "assistant", "content": "<think>Two and two.</think>\n\nIt is 4."}
    restored = remembering([USER], whole).restore_messages([USER, SAYS], VLLM)
    assert restored == [USER, whole]


def test_other_instructions_and_another_spelling_of_arguments_change_nothing() -> None:
    answer = {**calls("c1", '{"a": 1}'), "reasoning": "Look."}
    thoughts = remembering([{"role": "system", "content": "It is noon."}, USER], answer)
    turn = calls("c1", '{"a":1}')
    restored = thoughts.restore_messages([{"role": "system", "content": "It is one."}, USER, turn], VLLM)
    assert restored[2] == {**turn, "reasoning": "Look.", "reasoning_content": "Look."}


@pytest.mark.parametrize(
    "messages",
    [
        [USER, {"role": "assistant", "content": "It is 5."}],
        [{**USER, "content": "3 + 1?"}, SAYS],
        [SAYS, USER],
        [USER, {**SAYS, "role": "user"}],
    ],
    ids=["another answer", "another question", "another place", "another role"],
)
def test_turns_that_were_not_sampled_here_stay(messages: list[Any]) -> None:
    assert remembering([USER], THINKS).restore_messages(messages, VLLM) is messages


def test_a_turn_behind_an_edited_message_is_known_by_its_calls() -> None:
    thoughts = remembering([USER], {**calls("c1"), "reasoning": "Look."})
    (_, turn) = thoughts.restore_messages([{**USER, "content": "A summary."}, calls("c1")], VLLM)
    assert turn["reasoning"] == "Look."


def test_calls_of_two_answers_with_one_id_are_known_by_their_places_only() -> None:
    thoughts = remembering([USER], {**calls("c1"), "reasoning": "First."})
    thoughts.add([USER, calls("c1"), USER], {**calls("c1"), "reasoning": "Second."}, VLLM)
    restored = thoughts.restore_messages([USER, calls("c1"), USER, calls("c1")], VLLM)
    assert [message.get("reasoning") for message in restored] == [None, "First.", None, "Second."]
    edited = [{**USER, "content": "A summary."}, calls("c1")]
    assert thoughts.restore_messages(edited, VLLM) is edited


def test_nothing_is_put_back_for_a_client_that_sends_reasoning() -> None:
    thoughts = remembering([USER], THINKS)
    sent: list[Any] = [USER, THINKS, USER]
    assert thoughts.restore_messages(sent, VLLM) is sent
    left_out: list[Any] = [USER, SAYS, USER]
    assert thoughts.restore_messages(left_out, VLLM) is left_out


def test_the_oldest_reasoning_goes_first() -> None:
    thoughts = remembering([USER], THINKS, most_characters=20)
    thoughts.add([USER, SAYS, USER], {**SAYS, "reasoning": "Once more."}, VLLM)
    restored = thoughts.restore_messages([USER, SAYS, USER, SAYS], VLLM)
    assert [message.get("reasoning") for message in restored] == [None, None, None, "Once more."]
    assert remembering([USER], THINKS, most_characters=5).restore_messages([USER, SAYS], VLLM) == [USER, SAYS]
