"""An engine with token drift keeps the true tokens, and its templates change only what they say."""

from __future__ import annotations

from typing import Any

from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine._template import MarkTemplate
from nemo_gym.mock_engine.drifting import DriftingEngine, ForgetfulTemplate, RespacingTemplate
from nemo_gym.mock_engine.request import parse_chat
from nemo_gym.mock_engine.tokenizer import PairTokenizer

USER: dict[str, Any] = {"role": "user", "content": "What is the weather?"}
THOUGHTFUL: dict[str, Any] = {"role": "assistant", "content": "Snow.", "reasoning": "I look outside."}
REQUEST = {"messages": [USER], "return_token_ids": True, "logprobs": True}


def test_odd_tokens_decode_to_the_same_text_as_canonical_ones() -> None:
    engine = DriftingEngine(EngineOptions(policy="echo"), odd_share=1.0)
    (choice,) = engine.generate(parse_chat(dict(REQUEST))).choices
    assert choice.ids is not None
    tokenizer = PairTokenizer()
    text = tokenizer.decode(choice.ids)
    assert text.startswith(choice.reply.text)
    assert tokenizer.encode(text) != choice.ids
    assert len(choice.ids) == choice.token_count == len(choice.logprobs or [])
    (sampled,) = engine.sampled
    assert (sampled.generated_ids, sampled.logprobs) == (choice.ids, choice.logprobs)


def test_a_share_of_zero_samples_canonical_tokens() -> None:
    engine = DriftingEngine(EngineOptions(policy="echo"), odd_share=0.0)
    (choice,) = engine.generate(parse_chat(dict(REQUEST))).choices
    assert choice.ids == PairTokenizer().encode(PairTokenizer().decode(choice.ids or []))


def test_reasoning_is_forgotten_before_the_last_user_message_only() -> None:
    def shown(*messages: dict[str, Any]) -> bool:
        return "I look outside." in ForgetfulTemplate().prompt(messages, [])

    assert shown(USER, THOUGHTFUL)
    assert not shown(USER, THOUGHTFUL, USER)
    assert "I look outside." in MarkTemplate().prompt([USER, THOUGHTFUL, USER], [])


def test_arguments_are_respaced_and_mean_the_same() -> None:
    call = {"function": {"name": "f", "arguments": '{"a":1,"b":[2,3]}'}}
    prompt = RespacingTemplate().prompt(
        [USER, {"role": "assistant", "content": "", "tool_calls": [call]}], []
    )
    assert '{"a": 1, "b": [2,3]}' in prompt
    assert call["function"]["arguments"] == '{"a":1,"b":[2,3]}', "the message itself is unchanged"
