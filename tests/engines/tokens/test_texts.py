"""The texts of token ids are those of the engine, or unknown."""

from __future__ import annotations

import pytest

from nemo_gym.engines.tokens.texts import halve_text, split_texts
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.mock_engine.tokenizer import PairTokenizer
from tests.engines.upstreams import Canned, RecordingUpstream, vllm_over


@pytest.mark.parametrize(
    ("twice", "text"),
    [
        ("the the", " the"),  # without the space at the beginning
        ("thethe", "the"),
        ("\n\n", "\n"),
        (" ", " "),
        ("  ", " "),
        ("", ""),
        ("aab", None),
        ("a", None),
        ("\N{REPLACEMENT CHARACTER}" * 2, None),
    ],
)
def test_a_text_is_read_from_the_text_of_its_token_twice(twice: str, text: str | None) -> None:
    assert halve_text(twice) == text


async def test_the_engine_gives_every_whole_text() -> None:
    server = vllm_over(RecordingUpstream(MockEngine(EngineOptions()).app))
    written = "the größe of 1 😀 the"
    ids = PairTokenizer().encode(written)
    texts = await server.token_texts(sorted(set(ids)))
    assert texts
    for token, text in texts.items():
        assert PairTokenizer().decode([token]) == text
    unknown = [token for token in ids if token not in texts]
    assert all("\N{REPLACEMENT CHARACTER}" in PairTokenizer().decode([token]) for token in unknown)


async def test_an_engine_without_the_route_gives_no_text() -> None:
    assert await vllm_over(Canned().add(404, {"detail": "Not Found"})).token_texts([1, 2]) == {}


@pytest.mark.parametrize(
    ("text", "mark", "parts"),
    [
        (" of of x x of y y of", " of", [" x x", " y y"]),
        ("of of x x of y y of", " of", [" x x", " y y"]),
        ("abab11ab22ab", "ab", ["11", "22"]),
        ("abab11ab22", "ab", []),
        ("ab11ab", "ab", []),
        ("", "ab", []),
        ("1122", "", []),
    ],
)
def test_texts_between_marks_are_told_apart(text: str, mark: str, parts: list[str]) -> None:
    assert split_texts(text, mark) == parts


async def test_texts_of_many_tokens_take_few_requests() -> None:
    upstream = RecordingUpstream(MockEngine(EngineOptions()).app)
    ids = list(range(1_000))
    texts = await vllm_over(upstream).token_texts(ids)
    assert len(texts) > 500
    assert {token: PairTokenizer().decode([token]) for token in texts} == texts
    assert len(upstream.sent) < len(ids) / 4
