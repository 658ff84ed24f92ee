r"""Words, sentences, paragraphs and lines of a text, and occurrences of a phrase.

Words are counted in two ways. `word_runs` are runs of letters and digits, as IFEval counts them: "don't" has two.
`words` are separated by white space, without surrounding punctuation: "don't" and "well-known" are one word each, and
a lone dash is none. Rules about every word use `words`.

A sentence ends at `.`, `!`, `?` or `…` with closing quotes and brackets, before white space or the end of the text, but
not at a new line. The point of an abbreviation, an initial or a list number does not end it. Text after the last end is
a sentence too. Every function runs in linear time.
"""

from __future__ import annotations

import re
import string
from itertools import pairwise

from resources_servers.instruction_following.instructions.lexicon import ABBREVIATIONS

_WORD_RUN = re.compile(r"\w+")
_AROUND_WORDS = string.punctuation + "“”‘’„«»…—–¡¿、。，！？；："


def word_runs(text: str) -> list[str]:
    """Return the runs of letters, digits and underscores."""
    return _WORD_RUN.findall(text)


def words(text: str) -> list[str]:
    """Return the non-empty chunks between white space, without surrounding punctuation."""
    stripped = (chunk.strip(_AROUND_WORDS) for chunk in text.split())
    return [word for word in stripped if word]


def lower_words(text: str) -> list[str]:
    """Return the `words` of the lower-cased text."""
    return words(text.lower())


def lines(text: str) -> list[str]:
    """Return the lines that are not blank, with their indentation."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_DIVIDER = re.compile(r"(?<!\*)\*\*\*(?!\*)|^[^\S\n]*\* \* \*[^\S\n]*$", re.MULTILINE)


def paragraphs(text: str) -> list[str]:
    """Return the parts between blank lines."""
    return [part.strip() for part in _BLANK_LINES.split(text) if part.strip()]


def divided_paragraphs(text: str) -> list[str]:
    """Return the parts between Markdown dividers: `***` anywhere, or `* * *` on its own line."""
    return parts_between(_DIVIDER, text)


def parts_between(divider: re.Pattern[str], text: str) -> list[str]:
    """Return the parts between dividers. A blank part counts as "" unless it is the first or the last."""
    parts = [part.strip() for part in divider.split(text)]
    start = 0 if parts[0] else 1
    end = len(parts) if parts[-1] else len(parts) - 1
    return parts[start:end]


_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]}*_»]*+(?=\s|$)|[。！？]++[」』”）]*+")
_BEFORE_LOWER_CASE_ONLY = re.compile(r"(?:[a-z]\.)+[a-z]|etc", re.IGNORECASE)
_INITIAL = re.compile(r"[A-HJ-Z]")
_LONGEST_ABBREVIATION = 12


def sentences(text: str) -> list[str]:
    """Return the sentences. A part without a word belongs to the sentence before it."""
    ends = [end.end() for end in _SENTENCE_END.finditer(text) if not _is_inside_sentence(text, end)]
    spans: list[tuple[int, int]] = []
    for start, end in pairwise([0, *ends, len(text)]):
        if _WORD_RUN.search(text, start, end):
            spans.append((start, end))
        elif spans:
            spans[-1] = (spans[-1][0], end)
    return [text[start:end].strip() for start, end in spans]


def _is_inside_sentence(text: str, end: re.Match[str]) -> bool:
    """Return whether the mark does not end its sentence: an abbreviation, an initial, a list number, an ellipsis."""
    mark = end[0].rstrip("\"'”’)]}*_»")
    following = text[end.end() : end.end() + 2].strip()
    goes_on = following[:1].islower()
    if mark in ("...", "…"):
        return goes_on
    if mark != ".":
        return False
    line, _, chunk = _line_before(text, end.start()).rpartition(" ")
    chunk = chunk.lstrip("\"'“‘([{*_")
    if chunk.isdigit():
        return not line.strip()
    is_abbreviation = chunk.lower() in ABBREVIATIONS or _INITIAL.fullmatch(chunk) is not None
    return is_abbreviation or (goes_on and _BEFORE_LOWER_CASE_ONLY.fullmatch(chunk) is not None)


def _line_before(text: str, position: int) -> str:
    """Return the text before `position` on its line, up to the length of the longest abbreviation."""
    return text[max(0, position - _LONGEST_ABBREVIATION) : position].rpartition("\n")[2]


def occurrences(phrase: str, text: str) -> int:
    """Count `phrase` in `text`, also within words, ignoring case."""
    return text.casefold().count(phrase.casefold())


def whole_occurrences(phrase: str, text: str) -> int:
    """Count `phrase` in `text` as whole words, ignoring case."""
    pattern = rf"(?<!\w){re.escape(phrase.casefold())}(?!\w)"
    return len(re.findall(pattern, text.casefold()))


def first_letters(text: str) -> list[str]:
    """Return the first character of each word, in lower case."""
    return [word[0] for word in lower_words(text)]
