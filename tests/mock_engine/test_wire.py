"""Logprobs and reasoning in answers, and the parts of a stream."""

from __future__ import annotations

import pytest

from nemo_gym.mock_engine import ModelReply, ScriptPolicy
from nemo_gym.mock_engine._wire import Event, share, spans, windows
from nemo_gym.mock_engine.policies import Scene
from tests.mock_engine.wire import ADD, THOUGHTFUL, running


async def test_logprobs_name_tokens_by_their_text_by_default() -> None:
    async with running(ScriptPolicy((Scene((ModelReply("abcd"),)),))) as wire:
        _, answer = await wire.chat(logprobs=True, top_logprobs=2)
    first = answer["choices"][0]["logprobs"]["content"][0]
    assert (first["token"], first["bytes"]) == ("ab", [97, 98])
    assert [top["logprob"] for top in first["top_logprobs"]] == [first["logprob"], first["logprob"] - 0.75]


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("reasoning", {"reasoning"}),
        ("reasoning_content", {"reasoning_content"}),
        ("both", {"reasoning", "reasoning_content"}),
        ("inline", set()),
    ],
)
async def test_reasoning_is_where_the_engine_s_version_has_it(field: str, names: set[str]) -> None:
    async with running(THOUGHTFUL, reasoning_field=field) as wire:
        _, answer = await wire.chat(tools=[ADD])
    message = answer["choices"][0]["message"]
    assert {name for name in message if name.startswith("reasoning")} == names
    assert all(message[name] == "Two numbers." for name in names)
    assert message["content"] == ("<think>Two numbers.</think>Let me add." if not names else "Let me add.")


@pytest.mark.parametrize(("total", "parts"), [(0, 3), (7, 3), (3, 7), (12, 4)])
def test_shares_are_nearly_equal_and_join_to_the_whole(total: int, parts: int) -> None:
    shares = [range(total)[share(total, parts, part)] for part in range(parts)]
    assert [element for one in shares for element in one] == list(range(total))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_pieces_of_a_text_join_to_it() -> None:
    assert windows("abcdefg", 2) == ["abcd", "efg"]
    assert windows("", 2) == []
    assert list(spans(["ab", "", "cde", "f"])) == [0, 2, 2, 5]


def test_an_event_is_encoded_with_its_name() -> None:
    assert Event({"a": 1}).encode() == b'data: {"a":1}\n\n'
    assert Event({"a": 1}, name="response.created").encode() == b'event: response.created\ndata: {"a":1}\n\n'
    assert Event(None).encode() == b"data: [DONE]\n\n"
