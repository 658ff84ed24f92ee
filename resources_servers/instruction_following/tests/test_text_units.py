"""Splitting of texts into words, sentences and paragraphs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources_servers.instruction_following.instructions.text_units import (
    divided_paragraphs,
    lines,
    occurrences,
    paragraphs,
    sentences,
    whole_occurrences,
    word_runs,
    words,
)

WORDS = st.sampled_from(["tea", "Milk", "well-known", "don't", "naïve", "7", "чай"])
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)


@given(st.lists(WORDS, max_size=12), st.sampled_from([" ", "  ", "\n", " - ", ", ", ". "]))
def test_words_are_what_was_joined(given_words: list[str], joint: str) -> None:
    assert words(joint.join(given_words)) == given_words


@given(st.lists(TEXTS, min_size=1, max_size=6), st.sampled_from([". ", "! ", "?\n", '." ', "... ", "?! "]))
def test_sentences_are_what_was_joined(texts: list[str], joint: str) -> None:
    starts = [text[0].upper() + text[1:] for text in texts]
    starts = [f"So {start}" for start in starts]
    found = sentences(joint.join(starts))
    assert [words(sentence) for sentence in found] == [words(start) for start in starts]


@given(st.text(alphabet="aB1 .!?\n\"'*", max_size=60))
def test_sentences_hold_all_words(text: str) -> None:
    assert [run for sentence in sentences(text) for run in word_runs(sentence)] == word_runs(text)


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_paragraphs_are_what_was_joined(texts: list[str]) -> None:
    assert paragraphs("\n\n".join(texts)) == texts
    assert paragraphs("\n \n\n".join(texts)) == texts
    assert divided_paragraphs("\n***\n".join(texts)) == texts
    assert lines("\n".join(texts)) == texts


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Mr. Smith met Dr. J. Jones at 5 p.m. on Monday. Then he left.", 2),
        ("It costs 3.50 dollars. Yes.", 2),
        ("Tea, milk, etc. are here. Etc. is Latin.", 2),
        ("He said “Go.” She went.", 2),
        ("1. Wash it.\n2. Dry it.", 2),
        ("Wait... for it.", 1),
        ("Wait... It came.", 2),
        ("all lower case. no capitals. fine", 3),
        ("Is it 5? Yes! 😀", 2),
        ("今日は晴れ。明日は雨。", 2),
        ("No end", 1),
        ("...", 0),
        ("", 0),
    ],
)
def test_where_sentences_end(text: str, count: int) -> None:
    assert len(sentences(text)) == count, sentences(text)


def test_blank_parts_between_dividers_count() -> None:
    assert divided_paragraphs("***\na\n***\n***\nb\n***") == ["a", "", "b"]
    assert divided_paragraphs("**bold** and ****") == ["**bold** and ****"]
    assert divided_paragraphs("***") == []


def test_occurrences() -> None:
    assert occurrences("Tea", "teas, TEA") == 2
    assert whole_occurrences("Tea", "teas, TEA") == 1
    assert whole_occurrences("c++", "C++ or c") == 1
    assert whole_occurrences("limité à", "Limité à tous") == 1
