import json
from random import Random
from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.mock_engine._answers import answer_key
from nemo_gym.mock_engine.conversation import ModelReply, ToolCall
from nemo_gym.mock_engine.policies import (
    AnswerPolicy,
    EchoPolicy,
    GoldPolicy,
    MockPolicy,
    Scene,
    ScriptPolicy,
    ThinkingPolicy,
    ToolsPolicy,
)
from tests.mock_engine.wire import ADD, LOOK_UP, USER


def turns_of(policy: MockPolicy, tools: list[Any], most: int = 9) -> list[ModelReply]:
    """The replies up to the first one without calls; every call is answered with its own name."""
    messages: list[dict[str, Any]] = [USER]
    replies: list[ModelReply] = []
    while len(replies) < most:
        reply = policy.reply(messages, tools, Random(0))
        replies.append(reply)
        if not reply.tool_calls:
            break
        calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in reply.tool_calls]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages += [{"role": "tool", "content": f"output of {call.name}"} for call in reply.tool_calls]
    return replies


def test_echo_repeats_the_last_user_text_whatever_its_form() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "image_url"}, {"type": "input_text", "text": " two"}]
    messages: list[Any] = [USER, {"role": "assistant", "content": "3"}, {"role": "user", "content": parts}]
    assert EchoPolicy().reply(messages, [], Random(0)) == ModelReply("one [image_url] two")


def test_every_tool_is_called_once_in_order_and_the_close_quotes_the_last_output() -> None:
    replies = turns_of(ToolsPolicy(), [ADD, LOOK_UP])
    assert [[call.name for call in reply.tool_calls] for reply in replies] == [["add"], ["look_up"], []]
    assert json.loads(replies[0].tool_calls[0].arguments) == {"a": 1, "b": 1}
    assert json.loads(replies[1].tool_calls[0].arguments) == {"word": "x"}
    assert "output of look_up" in replies[-1].text


def test_all_tools_are_called_in_one_turn_when_in_parallel() -> None:
    replies = turns_of(ToolsPolicy(parallel=True), [ADD, LOOK_UP])
    assert [[call.name for call in reply.tool_calls] for reply in replies] == [["add", "look_up"], []]


def test_no_more_tools_are_called_than_allowed() -> None:
    assert len(turns_of(ToolsPolicy(most_calls=1), [ADD, LOOK_UP])) == 2


def test_a_new_user_message_has_the_tools_called_anew() -> None:
    call = {"function": {"name": "add", "arguments": "{}"}}
    messages: list[Any] = [
        USER,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": "3"},
        USER,
    ]
    assert ToolsPolicy().reply(messages, [ADD], Random(0)).tool_calls[0].name == "add"


def test_the_answer_closes_an_episode_of_tools() -> None:
    key = answer_key(['{"match": "1 + 2", "answer": "It is 3.", "wrong": "It is 4."}'])
    assert turns_of(ToolsPolicy(closing=AnswerPolicy(key)), [ADD])[-1] == ModelReply("It is 3.")


def test_answers_are_right_as_often_as_asked_for() -> None:
    policy = AnswerPolicy(answer_key(['{"match": "1 + 2", "answer": "3", "wrong": "4"}']), accuracy=0.3)
    rng = Random(5)
    texts = [policy.reply([USER], [], rng).text for _ in range(1_000)]
    assert set(texts) == {"3", "4"}
    assert 250 < texts.count("3") < 350


def test_a_question_outside_the_key_is_said_to_be_missing() -> None:
    assert "no entry for: What is 1 + 2?" in AnswerPolicy(answer_key([])).reply([USER], [], Random(0)).text


def test_a_script_goes_by_text_and_turn_and_repeats_its_last_reply() -> None:
    call = ModelReply(tool_calls=(ToolCall("add", "{}"),))
    policy = ScriptPolicy((Scene((call, ModelReply("done")), match="1 + 2"), Scene((ModelReply("other"),))))
    said = {"role": "assistant", "content": "…"}
    assert policy.reply([USER], [], Random(0)) == call
    assert policy.reply([USER, said], [], Random(0)).text == "done"
    assert policy.reply([USER, said, said, said], [], Random(0)).text == "done"
    assert policy.reply([{"role": "user", "content": "Hello"}], [], Random(0)).text == "other"


def test_a_conversation_without_a_scene_is_an_error_that_quotes_it() -> None:
    with pytest.raises(InputError, match="What is 1"):
        ScriptPolicy((Scene((ModelReply("x"),), match="nowhere"),)).reply([USER], [], Random(0))


def test_gold_is_followed_as_often_as_asked_for_and_only_where_the_script_has_a_scene() -> None:
    script = ScriptPolicy((Scene((ModelReply("gold"),), match="known"),))
    rng, known = Random(0), [{"role": "user", "content": "known"}]
    said = [GoldPolicy(script, EchoPolicy(), 0.7).reply(known, [], rng).text for _ in range(300)]
    assert 180 < said.count("gold") < 240
    assert set(said) == {"gold", "known"}
    assert GoldPolicy(script, EchoPolicy()).reply([USER], [], rng) == EchoPolicy().reply([USER], [], rng)


def test_thinking_adds_reasoning_only_where_there_is_none() -> None:
    assert "call add" in ThinkingPolicy(ToolsPolicy()).reply([USER], [ADD], Random(0)).reasoning
    scripted = ScriptPolicy((Scene((ModelReply("x", "mine"),)),))
    assert ThinkingPolicy(scripted).reply([USER], [], Random(0)).reasoning == "mine"
