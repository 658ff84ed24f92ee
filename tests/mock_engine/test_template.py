from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.mock_engine._template import MarkTemplate
from nemo_gym.mock_engine.conversation import ModelReply, ToolCall
from nemo_gym.mock_engine.tokenizer import PairTokenizer
from tests.mock_engine.wire import ADD, USER

TEMPLATE, TOKENIZER = MarkTemplate(), PairTokenizer()
PLAIN = st.text(st.characters(exclude_characters="<>\n", codec="utf-8"))
REPLIES = st.builds(
    ModelReply,
    text=PLAIN,
    reasoning=PLAIN,
    tool_calls=st.lists(st.builds(ToolCall, name=st.just("add"), arguments=PLAIN), max_size=3).map(tuple),
)


def history_of(reply: ModelReply) -> dict[str, Any]:
    """The message that a client keeps of a reply."""
    calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in reply.tool_calls]
    return {
        "role": "assistant",
        "content": reply.text or None,
        "reasoning": reply.reasoning,
        "tool_calls": calls,
    }


@given(st.lists(REPLIES, min_size=1, max_size=4))
def test_each_prompt_starts_with_the_ids_of_the_last_prompt_and_its_reply(replies: list[ModelReply]) -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, USER]
    seen: list[int] = []
    for reply in replies:
        prompt = TOKENIZER.encode(TEMPLATE.prompt(messages, [ADD]))
        assert prompt[: len(seen)] == seen
        seen = [*prompt, *TOKENIZER.encode(TEMPLATE.reply(reply)), TOKENIZER.end_of_turn]
        messages += [history_of(reply), {"role": "tool", "content": "3"}]


@given(REPLIES)
def test_a_written_reply_is_parsed_into_what_it_was(reply: ModelReply) -> None:
    assert TEMPLATE.parse(TEMPLATE.reply(reply)) == reply


def test_reasoning_that_was_cut_off_is_reasoning_only() -> None:
    assert TEMPLATE.parse("<think>I was ab") == ModelReply(reasoning="I was ab")


def test_a_call_that_was_cut_off_stays_text() -> None:
    assert TEMPLATE.parse('Well.<tool_call>add\n{"a"') == ModelReply('Well.<tool_call>add\n{"a"')


def test_a_think_mark_later_in_an_answer_is_text() -> None:
    assert TEMPLATE.parse("The mark <think> opens.") == ModelReply("The mark <think> opens.")


def test_tools_are_declared_in_the_system_message_or_in_one_of_their_own() -> None:
    with_system = TEMPLATE.prompt([{"role": "system", "content": "Be brief."}, USER], [ADD])
    without = TEMPLATE.prompt([USER], [ADD])
    assert with_system.startswith("<|system|>Be brief.\n\n# Tools\n[{")
    assert without.startswith("<|system|># Tools\n[{")


def test_a_prompt_opens_the_reply_by_default() -> None:
    assert TEMPLATE.prompt([USER], []).endswith("<|end|>\n<|assistant|>")
    assert TEMPLATE.prompt([USER], [], opens_reply=False).endswith("<|end|>\n")


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match="critic"):
        TEMPLATE.prompt([{"role": "critic", "content": "No."}], [])
