"""The words of a request, and what it says of them: enough to tell whether a call was asked for.

    request = RequestWords("Rent six helmets. Log every watering.")
    request.mentions("helmet")                    # True
    request.asks_for_all({"log"})                 # True: a sentence with `log` has `every`

Words are compared without case, plural and the endings of verbs. No meaning is read: a caller counts only what literal
words decide, and calls the rest undecided.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, cached_property

_WORD = re.compile(r"[^\W\d_]{3,}")
_NUMBER = re.compile(
    r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|\.\d)|(?<![\w.,-])\d+(?:\.\d+)?(?=[A-Za-z%°])"
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_ALL = frozenset({"all", "every", "each", "any", "both", "everyone", "everything"})
_CONDITIONS = frozenset({"if", "unless", "otherwise", "else", "instead", "whether", "maybe", "optional"})
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent\b)", re.IGNORECASE)
_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_READING = re.compile(
    r"(?:^|_)(?:get|list|find|search|read|count|check|look|show|view|query|lookup|describe|fetch)(?:_|$)"
)
"""Names of tools that read."""
_ABOUT = re.compile(
    r"\b(at least|at most|under|below|over|above|up to|about|around|roughly|maximum|minimum|max|min|less than|"
    r"more than|within|exceed\w*|budget of|no more than)\W+(?:\w+\W+)?$",
    re.IGNORECASE,
)


@cache
def _shorten(word: str) -> str:
    for ending in ("ions", "ion", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word.removesuffix(ending)
            break
    return word.rstrip("e") if len(word) > 4 else word


_COMMON_WORDS = """
the and for with that this from not are was has have can will you our they them then than but its one two all any
each every both add get set use make list find check show see look update create delete remove change new item
items name type status note notes description general standard other per via please also need needs want date time
"""
_COMMON = frozenset(map(_shorten, _COMMON_WORDS.split()))


def find_words(text: str) -> set[str]:
    """Return the words of `text` of three letters and more, in their basic form."""
    return {_shorten(word) for word in _WORD.findall(text.casefold())} - _COMMON


def reads_by_name(tool: str) -> bool:
    """Return whether a tool's name has a word for reading, such as `get`."""
    return _READING.search(tool) is not None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the request."""

    words: frozenset[str]
    says_all: bool
    is_conditional: bool
    counts: frozenset[int] = frozenset()
    """The counts of things that it states, in words or digits: `all three`."""


@dataclass
class RequestWords:
    """The sentences and numbers of a request."""

    text: str
    sentences: list[Sentence] = field(init=False)
    words: frozenset[str] = field(init=False)
    numbers: list[float] = field(init=False)
    """The exact numbers, without those that stand for a bound or an estimate."""

    def __post_init__(self) -> None:
        self.sentences = [_read_sentence(part) for part in _SENTENCE.split(self.text)]
        self.words = frozenset().union(*(sentence.words for sentence in self.sentences))
        self.numbers = [
            float(found[0].replace(",", ""))
            for found in _NUMBER.finditer(self.text)
            if not _ABOUT.search(self.text[: found.start()])
        ]

    def asks_for(self, words: Iterable[str]) -> set[str]:
        """Return those of `words` that a sentence without a condition has."""
        return {
            word
            for word in words
            if any(word in sentence.words and not sentence.is_conditional for sentence in self.sentences)
        }

    def asks_for_all(self, words: Set[str]) -> bool:
        """Return whether a sentence without a condition has one of `words`, and `all`, `every`, `each`, …"""
        return any(
            sentence.says_all and not sentence.is_conditional and words & sentence.words
            for sentence in self.sentences
        )

    def asks_for_count(self, words: Set[str], count: int) -> bool:
        """Return whether a sentence that asks for all of something with one of `words` states their `count`."""
        return any(
            sentence.says_all
            and not sentence.is_conditional
            and words & sentence.words
            and count in sentence.counts
            for sentence in self.sentences
        )

    @cached_property
    def _folded(self) -> str:
        return self.text.casefold()

    @cached_property
    def percentages(self) -> list[float]:
        """The stated percentages, as shares of 1."""
        return [float(found[1]) / 100 for found in _PERCENT.finditer(self.text)]

    def dictates(self, numbers: Sequence[float]) -> bool:
        """Return whether the request states `numbers` one after the other."""
        size = len(numbers)
        return any(self.numbers[at : at + size] == [*numbers] for at in range(len(self.numbers) - size + 1))

    def quotes(self, text: str) -> bool:
        """Return whether the request has `text` literally, as words of its own."""
        if text.casefold() not in self._folded:
            return False
        return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self.text, re.IGNORECASE) is not None


def _read_sentence(text: str) -> Sentence:
    plain = set(re.findall(r"[a-z]+|\d+", text.casefold()))
    counts = {place for place, word in enumerate(_COUNTS, 2) if word in plain or str(place) in plain}
    return Sentence(
        frozenset(find_words(text)),
        not plain.isdisjoint(_ALL),
        not plain.isdisjoint(_CONDITIONS),
        frozenset(counts),
    )
