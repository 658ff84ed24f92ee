r"""Numbers in words: "twenty-three", "two million three hundred and five", "minus three", "three quarters"."""

from __future__ import annotations

import re

__all__ = ["read_number_words"]

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBERS = {word: number for number, word in enumerate(_SMALL)} | {
    word: 10 * number for number, word in enumerate(_TENS, 2)
}
_BELOW_THOUSAND = re.compile(
    rf"(?:(?P<hundreds>{'|'.join(_SMALL[1:10])}) hundred(?: (?:and )?|$))?"
    rf"(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<ones>{'|'.join(_SMALL[1:10])}))?|(?P<small>{'|'.join(_SMALL)}))?"
)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALED = re.compile(rf"(?P<count>.+?)[ ](?P<scale>{'|'.join(_SCALES)})(?:,?[ ](?:and[ ])?|$)")
_ONE = re.compile(rf"\Aan? (?=(?:hundred|half|third|quarter|{'|'.join(_SCALES)})\b)")
_SHARE = re.compile(
    rf"(?P<top>{'|'.join(_SMALL[1:])})[- ]"
    r"(?P<bottom>half|halves|thirds?|quarters?|fourths?|fifths?|sixths?|sevenths?|eighths?|ninths?|tenths?)"
)
_PARTS = ("half", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def read_number_words(words: str) -> str | None:
    r"""Return the number that words in lower case are, in digits or as `\frac{…}{…}`; None for other words."""
    for sign in ("minus ", "negative "):
        if words.startswith(sign):
            size = read_number_words(words.removeprefix(sign))
            return None if size is None or size.startswith("-") else f"-{size}"
    words = _ONE.sub("one ", words)
    share = _SHARE.fullmatch(words)
    if share is not None:
        part = share["bottom"].replace("halves", "half").replace("quarter", "fourth").removesuffix("s")
        return rf"\frac{{{_NUMBERS[share['top']]}}}{{{_PARTS.index(part) + 2}}}"
    number = _read_number(words)
    return None if number is None else str(number)


def _read_number(words: str) -> int | None:
    """Return the number that words are: "two million three hundred and five"; None for other words."""
    total, lowest = 0, max(_SCALES.values()) + 1
    while (scaled := _SCALED.match(words)) is not None:
        count, scale = _read_below_thousand(scaled["count"]), _SCALES[scaled["scale"]]
        if not count or scale >= lowest:
            return None
        total, lowest, words = total + count * scale, scale, words[scaled.end() :]
    last = _read_below_thousand(words) if words else 0
    return None if last is None or (not words and not total) else total + last


def _read_below_thousand(words: str) -> int | None:
    number = _BELOW_THOUSAND.fullmatch(words)
    if number is None or not words:
        return None
    parts = [_NUMBERS.get(number[part] or "", 0) for part in ("hundreds", "tens", "ones", "small")]
    return 100 * parts[0] + sum(parts[1:])
