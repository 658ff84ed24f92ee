"""Answers that are no formula: words, times of day, dates and other numbers that nothing is computed from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from nemo_gym.verify.notation import FUNCTION_NAMES
from nemo_gym.verify.number_words import read_number_words


@dataclass(frozen=True, slots=True)
class Words:
    """A text that is no formula. As one, "east" would be a product that equals "seat"."""

    text: str
    is_short: bool = False
    """True if no word has four letters, so that the text may be a product of letters too."""
    is_typeset: bool = False
    r"""True if a `\text{…}` says that it is words."""


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day with "a.m." or "p.m."."""

    minutes: int
    """Since midnight."""


_TEXT_BLOCK = re.compile(r"\\(?:text|mathrm)\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[a-zA-Z*]+\}|\\[a-zA-Z]+")
_RUN = re.compile(r"[^\W\d_]{2,}")
_FREE_RUN = re.compile(r"(?<!\S)[^\W\d_]{3}(?![^\s.,;:!?])")
_LETTERS_ONLY = re.compile(r"[^\W\d_][^\W\d_\s.,;:!?'’-]*(?:[\s.,;:!?'’-]+[^\W\d_]+)*[\s.,;:!?'’-]*")
_NOT_APPLICABLE = re.compile(r"[nN]/[aA]")
_LONG = 4
_NO_WORDS = FUNCTION_NAMES | {"and", "or", "mod", "bmod", "pmod"}


def read_words(text: str) -> Words | None:
    r"""Return `text` as words; None when it is a formula.

    A run of four letters is a word, unless it names a function; so are shorter runs in a text of letters only, and
    three letters between spaces. Words in `\text{…}` count only when the text has nothing else: beside a formula they
    are a unit or a conjunction.
    """
    beside_text = _TEXT_BLOCK.sub(" ", text)
    has_formula = re.search(r"\w", _COMMAND.sub(" ", beside_text)) or "\\" in beside_text
    plain = beside_text if has_formula else unwrap_text(text)
    formula = _COMMAND.sub(" ", plain)
    words = [run for run in _RUN.findall(formula) if run not in _NO_WORDS and not _is_alphabet(run)]
    if _NOT_APPLICABLE.fullmatch(plain.strip()):
        return Words(unwrap_text(text))
    is_typeset = text.strip().startswith("\\text")
    if any(len(word) >= _LONG for word in words):
        return Words(unwrap_text(text), is_typeset=is_typeset)
    is_letters = not has_formula or "\\" not in plain
    if words and is_letters and _LETTERS_ONLY.fullmatch(formula.strip()):
        return Words(unwrap_text(text), is_short=True, is_typeset=is_typeset)
    free = [run for run in _FREE_RUN.findall(formula) if run in words]
    return Words(unwrap_text(text), is_short=True) if free and not re.search(r"[=<>+*/^]", formula) else None


_NAMED_SETS = {
    "all real numbers": "\\mathbb{R}", "all reals": "\\mathbb{R}", "all real values": "\\mathbb{R}",
    "the set of all real numbers": "\\mathbb{R}", "the set of real numbers": "\\mathbb{R}", "all real x": "\\mathbb{R}",
    "the real numbers": "\\mathbb{R}", "real numbers": "\\mathbb{R}",
    "the empty set": "\\emptyset", "empty set": "\\emptyset",
    "all integers": "\\mathbb{Z}", "the set of integers": "\\mathbb{Z}", "the integers": "\\mathbb{Z}",
}  # fmt: skip


_RATIO = re.compile(r"\d+(?: to \d+)+")


def read_named_value(text: str) -> str | None:
    r"""Return the formula that words name, else None: `\text{five}` is 5, "all reals" `\mathbb{R}`, "2 to 3" 2:3.

    "one half" is `\frac{1}{2}`, and "two million" 2000000.
    """
    words = " ".join(unwrap_text(text).lower().split()).strip(" .")
    if _RATIO.fullmatch(words):
        return words.replace(" to ", ":")
    return _NAMED_SETS.get(words) or read_number_words(words)


_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_MONTH_DAY = re.compile(rf"\b({_MONTHS}) (?:the )?(\d{{1,2}})(?:st|nd|rd|th)\b")
_DAY_MONTH = re.compile(rf"\b(?:the )?(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTHS})\b")


def write_date(words: str) -> str:
    """Return normalized words with a day behind its month, and without the ending of its ordinal: "march 5"."""
    return _DAY_MONTH.sub(r"\2 \1", _MONTH_DAY.sub(r"\1 \2", words))


_QUALIFIED = re.compile(
    r"\b(?:but|however|unless|except|if|although|maybe|sometimes|partly|only|depends?|or|either|unsure|not\s+sure|wait"
    r"|actually|both)\b"
)
_COUNTED = re.compile(
    r"infinitely many (?:(?:real|integer|such|different|distinct|positive|complex|possible) )?[a-z]+s"
)


def affirms(short: str, long: str) -> bool:
    """Return whether `long` explains `short`: "yes, the series converges", "infinitely many solutions"."""
    if short == "infinitely many":
        return _COUNTED.fullmatch(long) is not None
    if short not in ("yes", "no", "true", "false"):
        return False
    said = long.removeprefix(short)
    contrary = {"yes": "no", "no": "yes", "true": "false", "false": "true"}[short]
    is_other = _QUALIFIED.search(said) is not None or re.search(rf"\b{contrary}\b", said) is not None
    return long.startswith(short) and said[:1] in (",", ";", ":", ".", "!") and not is_other


def unwrap_text(text: str) -> str:
    r"""Return `text` without `\text{…}` and similar commands around its words."""
    return _TEXT_BLOCK.sub(r"\1", text)


def _is_alphabet(run: str) -> bool:
    """Return whether a run of three letters or more is alphabetical, as variables are: "xyz"."""
    return len(run) > 2 and all(ord(after) - ord(before) == 1 for before, after in pairwise(run))


_TIME = re.compile(
    r"(?P<hour>0?[1-9]|1[0-2])(?::(?P<minute>[0-5]\d))?\s*(?P<half>[aApP])\.?\s*[mM]\.?",
)


def read_time(text: str) -> Time | None:
    match = _TIME.fullmatch(re.sub(r"\\[,; ]|~", " ", unwrap_text(text)).strip())
    if match is None:
        return None
    hour = int(match["hour"]) % 12 + (12 if match["half"] in "pP" else 0)
    return Time(60 * hour + int(match["minute"] or 0))


_DATE = re.compile(
    r"(?:\d{1,2}([-/])\d{1,2}\1\d{4}|\d{1,2}/\d{1,2}/\d{2}|\d{4}([-/])\d{1,2}\2\d{1,2})(?:[T ]\d.*)?"
    r"|\d{1,2}:\d{2}\s*-\s*\d{1,2}:\d{2}|\(\d{3}\)\s*\d{3}-\d{4}|\+?\d{1,2}\s?\(\d{3}\)\s*\d{3}-\d{4}"
)
_JOINED = re.compile(r"\d+(?:-\d+)+|\d+(?:/\d+)+")
_LEADING_ZERO = re.compile(r"\b0\d")


def is_identifier(text: str) -> bool:
    """Return whether digits with hyphens or slashes are a date, a time, a range of years or a number of a phone.

    Digits joined without spaces are so if a part has a leading zero. A chain of hyphens is so if it would be below zero
    and ends with a year or has several parts: `8-3-2` is 3, and `1-800-555` is no value.
    """
    if _DATE.fullmatch(text):
        return True
    if not _JOINED.fullmatch(text.removeprefix("+")):
        return False
    parts = text.removeprefix("+").split("-")
    is_negative = int(parts[0][:18]) < sum(int(part[:18]) for part in parts[1:]) if "-" in text else False
    is_code = len(parts) > 2 and max(map(len, parts)) > 1
    is_range = len(parts[0]) >= 3 and len(parts[-1]) == 4
    return _LEADING_ZERO.search(text) is not None or (is_negative and (is_code or is_range))
