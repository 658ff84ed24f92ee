"""The sentences of a text."""

from __future__ import annotations

import re

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
