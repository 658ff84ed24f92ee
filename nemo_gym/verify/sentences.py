"""The sentences of a text."""

from __future__ import annotations

import re

__all__ = ["split_sentences"]

_ABBREVIATIONS = (
    "e.g",
    "i.e",
    "approx",
    "Ans",
    "ans",
    "vs",
    "cf",
    "etc",
    "No",
    "no",
    "St",
    "Dr",
    "Mr",
    "Mrs",
    "Ms",
)
_NO_END = "".join(rf"(?<!\b{re.escape(word)}\.)" for word in _ABBREVIATIONS)
_END = re.compile(rf"(?<=[.!?…]){_NO_END}[)\"'”’*_`$]*\s+|(?<=[。！？])")
_POLITENESS = re.compile(
    r"[\W_]*(?:let\s+me\s+know|(?:i|we)\s+hope|hope\s+(?:this|that|it)|feel\s+free|(?:please\s+)?(?:don['’]t\s+)?hesitate"
    r"|happy\s+to\s+help|if\s+you\s+(?:have|need|want|would|['’]d)|please\s+(?:ask|let)|good\s+luck|thank\s+you|thanks"
    r"|you['’]re\s+welcome|is\s+there\s+anything)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_NOTHING_SAID = re.compile(r"[\W_]*")


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of `text`, without emptiness and politeness ("I hope this helps")."""
    parts = [part.strip() for line in text.splitlines() for part in _END.split(line)]
    return [part for part in parts if not _NOTHING_SAID.fullmatch(part) and not _POLITENESS.fullmatch(part)]


_FULL_STOP = re.compile(r"\.(?=\s|$)")
_ABBREVIATION = re.compile(
    r"(?:st|mr|mrs|ms|dr|prof|rev|hon|gen|col|sgt|capt|lt|sen|gov|rep|jr|sr|mt|ft|no|vs|inc|ltd|co|corp|approx|etc"
    r"|e\.g|i\.e|ca|cf|vol|fig|ave|blvd|rd|(?:[a-z]\.)+[a-z])",
    re.IGNORECASE,
)
_NAME_PARTICLES = frozenset({"de", "da", "di", "van", "von", "der", "of", "the", "and"})
_LONGEST = 2_000
"""The number of characters in which the end of a first sentence is looked for."""


def cut_first_sentence(text: str) -> str:
    """Return the text before the first full stop that ends a sentence, and not an abbreviation or an initial."""
    for stop in _FULL_STOP.finditer(text[:_LONGEST]):
        words = text[: stop.start()].split()
        word, rest = words[-1].lstrip("(\"'“") if words else "", text[stop.end() : _LONGEST]
        is_initial = len(word) == 1 and word.isupper() and _goes_on_as_name(rest)
        if not rest.strip() or not (is_initial or _ABBREVIATION.fullmatch(word)):
            return text[: stop.start()]
    return text


def _goes_on_as_name(rest: str) -> bool:
    """Return whether the words up to the next full stop are those of a name: "K. Rowling"."""
    for word in rest.split():
        if not (word[0].isupper() or word in _NAME_PARTICLES):
            return False
        if word.endswith(".") and len(word) > 2:
            return True
    return bool(rest.strip())
