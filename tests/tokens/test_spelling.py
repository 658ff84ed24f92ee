"""Sampled arguments of tool calls come back in the sampled text, if their value is the same."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.tokens.spelling import SampledArguments

SAMPLED = '{"q": "Z\\u00fcrich", "n": 1.0}'


def call(arguments: Any, name: str = "call_1") -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}


def says(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


@pytest.fixture
def sampled() -> SampledArguments:
    arguments = SampledArguments()
    arguments.add(says(call(SAMPLED)))
    return arguments


@pytest.mark.parametrize("text", [SAMPLED, '{"n":1,"q":"Zürich"}', '{\n "q": "Z\\u00FCrich",\n "n": 1.0\n}'])
def test_a_text_of_equal_value_is_replaced(sampled: SampledArguments, text: str) -> None:
    assert sampled.restored([says(call(text))]) == [says(call(SAMPLED))]


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
def test_other_calls_stay_as_they_are(sampled: SampledArguments, changed: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "hi"}, says(changed)]
    assert sampled.restored(messages) == messages


def test_an_answer_without_ids_or_arguments_is_nothing_to_remember() -> None:
    arguments = SampledArguments()
    arguments.add({"role": "assistant", "content": "hi"})
    arguments.add(says({"function": {"arguments": "{}"}}, {"id": "a"}))
    assert arguments.restored([says(call("{ }", "a"))]) == [says(call("{ }", "a"))]
