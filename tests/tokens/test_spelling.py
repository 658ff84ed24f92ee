"""Sampled arguments of tool calls come back in the sampled text, if their value is the same."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.tokens.spelling import SampledTurns

SAMPLED = '{"q": "Z\\u00fcrich", "n": 1.0}'


def call(arguments: Any, name: str = "call_1") -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}


def says(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


@pytest.fixture
def sampled() -> SampledTurns:
    arguments = SampledTurns()
    arguments.add(says(call(SAMPLED)))
    return arguments


@pytest.mark.parametrize("text", [SAMPLED, '{"n":1,"q":"Zürich"}', '{\n "q": "Z\\u00FCrich",\n "n": 1.0\n}'])
def test_a_text_of_equal_value_is_replaced(sampled: SampledTurns, text: str) -> None:
    assert sampled.restore_messages([says(call(text))]) == [says(call(SAMPLED))]


@pytest.mark.parametrize(
    "changed",
    [
        call('{"q": "Zurich", "n": 1.0}'),
        call('{"q": "Zürich"}'),
        call("{"),
        call(None),
        call('{"n":1,"q":"Zürich"}', "call_2"),
    ],
    ids=lambda changed: str(changed["function"]["arguments"]),
)
def test_other_calls_stay_as_they_are(sampled: SampledTurns, changed: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "hi"}, says(changed)]
    assert sampled.restore_messages(messages) == messages


def test_an_answer_without_ids_or_arguments_is_nothing_to_remember() -> None:
    arguments = SampledTurns()
    arguments.add({"role": "assistant", "content": "hi"})
    arguments.add(says({"function": {"arguments": "{}"}}, {"id": "a"}))
    assert arguments.restore_messages([says(call("{ }", "a"))]) == [says(call("{ }", "a"))]


@pytest.mark.parametrize(
    "written",
    ["Hi there.", " Hi there.\n\n", [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there."}]],
)
def test_a_text_that_was_stripped_or_split_is_replaced(written: Any) -> None:
    turns = SampledTurns()
    turns.add({"role": "assistant", "content": "Hi there.\n"})
    (restored,) = turns.restore_messages([{"role": "assistant", "content": written, "name": "x"}])
    assert restored == {"role": "assistant", "content": "Hi there.\n", "name": "x"}


def test_a_text_that_was_sampled_so_stays(sampled: SampledTurns) -> None:
    for text in ("Hi.", "Hi.\n"):
        sampled.add({"role": "assistant", "content": text})
    messages = [{"role": "assistant", "content": text} for text in ("Hi.", "Hi.\n", "Hello.")]
    messages += [{"role": "user", "content": " Hi."}]
    assert sampled.restore_messages(messages) == messages


def test_a_message_that_was_sent_before_says_what_it_said_then(sampled: SampledTurns) -> None:
    written = says(call('{"n":1,"q":"Zürich"}'))
    sent = sampled.restore_messages([written])
    sent.append({"role": "user", "content": "a caller's own"})
    sampled.add(says(call('{"q":"Zürich","n":1}')))
    again = says(call('{"n": 1, "q": "Zürich"}'))
    assert sampled.restore_messages([written, again]) == [
        says(call(SAMPLED)),
        says(call('{"q":"Zürich","n":1}')),
    ]
    assert sampled.restore_messages([again]) == [says(call('{"q":"Zürich","n":1}'))], "another beginning"
    assert sampled.restore_messages([written]) == [says(call('{"q":"Zürich","n":1}'))], (
        "a copy, not the message sent"
    )
