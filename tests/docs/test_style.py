"""Sentences of the pages that a newcomer reads are short."""

from __future__ import annotations

import re
import tomllib

import pytest

from docs.snippets import DOCS

LONGEST = 40
SECTIONS = ("Start", "How to", "Coming from")
_NOT_PROSE = re.compile(r"^<!--.*?-->$|^```.*?^```$|^\|.*?$|^#.*?$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)")
_END = re.compile(r"(?<=[.:;?!])\s+")


def pages_of_newcomers() -> list[str]:
    nav = tomllib.loads((DOCS.parent / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    return [page for entry in nav for name in SECTIONS for page in entry.get(name, ())]


def sentences_of(text: str) -> list[str]:
    blocks = _BLOCK.split(_NOT_PROSE.sub("\n\n", text))
    return [sentence for block in blocks for sentence in _END.split(" ".join(block.split())) if sentence]


@pytest.mark.parametrize("page", pages_of_newcomers())
def test_no_sentence_is_longer_than_forty_words(page: str) -> None:
    sentences = sentences_of((DOCS / page).read_text(encoding="utf-8"))
    assert len(sentences) > 5
    assert [sentence for sentence in sentences if len(sentence.split()) > LONGEST] == []


def test_a_long_sentence_is_found() -> None:
    (short, long) = sentences_of("It is short. " + "word " * 41 + "ends.")
    assert len(short.split()) <= LONGEST < len(long.split())
