r"""Parsing and exact comparison of numbers as people and models write them.

`1,234.50`, `-3/4`, `2 1/2`, `\frac{3}{4}`, `½`, `1.5 \times 10^3`, `2.5 million`, `$18`, `18 dollars`, `12.5%`,
`5\text{ km}`. Values are fractions, so that no precision is lost. A text that is not just a number with an optional
unit (`3x`, `3 or 4`, `1,23`) gives None: a verifier must not find the right number in a text that hedges.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

from nemo_gym.verify.answers import strip_math_marks

MAX_CHARS = 400
MAX_EXPONENT = 400
"""Larger powers of ten are not parsed: they would exhaust the memory."""

TOLERANCE = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit."""

    value: Fraction
    unit: str = ""
    """Lower case and singular; `%` for percent; "" when there is none."""


def is_same_quantity(expected: Quantity, answer: Quantity) -> bool:
    """Return whether the values are the same and the units do not contradict each other.

    A missing unit matches every unit. A percentage equals both the number before the sign and its hundredth.
    Integers must be equal. Other numbers may differ by a millionth, because some fractions have no finite decimal
    form (0.333333 is 1/3, 0.333 is not).
    """
    if expected.unit and answer.unit and expected.unit != answer.unit:
        return False
    if _is_same_value(expected.value, answer.value):
        return True
    if (expected.unit == "%") == (answer.unit == "%"):
        return False
    percent_as_share = [side.value / 100 if side.unit == "%" else side.value for side in (expected, answer)]
    return _is_same_value(*percent_as_share)


def _is_same_value(expected: Fraction, answer: Fraction) -> bool:
    if expected.denominator == answer.denominator == 1:
        return expected == answer
    return abs(expected - answer) <= min(TOLERANCE, abs(expected) * TOLERANCE)


_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(
    rf"""
    (?P<sign>[+-]?)\s*(?P<currency>[$€£¥]?)\s*(?P<inner_sign>[+-]?)
    (?:
        (?:(?P<whole>{_DIGITS})\s+)?(?P<top>{_DECIMAL})\s*/\s*(?P<bottom>{_DECIMAL})
      | (?P<decimal>{_DECIMAL})(?:\s*(?:e|[x×*]\s*10\^)\s*(?P<exponent>[+-]?\d{{1,4}}))?
    )
    (?P<unit>\s*%|\s*°\s*[a-z]?|\s+[a-z][a-z .]*(?:\^[23])?(?:/[a-z]+(?:\^[23])?)?)?
    """,
    re.IGNORECASE | re.VERBOSE,
)

_UNIT_NAMES = {"$": "dollar", "usd": "dollar", "€": "euro", "£": "pound", "¥": "yen", "percent": "%"}
_MULTIPLIERS = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_UNIT = re.compile(
    r"(?:[a-z]{4,}|mm|cm|km|in|ft|yd|mi|mg|kg|lbs?|oz|ml|sec|min|hrs?|day|mph|kph|hz|[kmg]b|usd|kw)(?![a-z])"
)
"""The start of a unit. A word of fewer than four letters must be a known unit: `3 xy` is a product."""
_NO_UNIT = re.compile(
    r"\b(?:or|not|but|over|plus|minus|times|power|squared|cubed|factorial|roots?|half|halves|thirds?|quarters?"
    r"|fifths?|tenths?|hundredths?|maybe|perhaps|less|more|because|since|alpha|beta|gamma|delta|theta|lambda"
    r"|sigma|omega|sqrt|infinity|infty)\b"
)
"""Words that change the value, hedge, or represent a number."""


def read_quantity(text: str) -> Quantity | None:
    """The quantity that `text` is, as a whole; None when it is anything else."""
    if len(text) > MAX_CHARS:
        return None
    match = _NUMBER.fullmatch(_without_typesetting(text))
    if match is None or (match["sign"] and match["inner_sign"]):
        return None
    factor, unit = _read_unit(match["unit"] or "")
    value = _read_value(match)
    currency = _UNIT_NAMES.get(match["currency"], "")
    if value is None or unit is None or (unit and currency and unit != currency):
        return None
    is_negative = "-" in (match["sign"], match["inner_sign"])
    return Quantity((-value if is_negative else value) * factor, unit or currency)


def _read_value(match: re.Match[str]) -> Fraction | None:
    if match["decimal"] is None:
        whole, top, bottom = (_read_decimal(match[part] or "0") for part in ("whole", "top", "bottom"))
        return whole + top / bottom if bottom else None
    exponent = int(match["exponent"] or 0)
    return (
        _read_decimal(match["decimal"]) * Fraction(10) ** exponent if abs(exponent) <= MAX_EXPONENT else None
    )


def _read_decimal(digits: str) -> Fraction:
    return Fraction(digits.replace(",", ""))


def _read_unit(text: str) -> tuple[int, str | None]:
    """Return the factor and the unit that the words after a number mean; None as the unit when they are not one."""
    text = text.lower()
    words = text.replace("/", " per ").replace("°", " degree ").split()
    factor = 1
    while words and words[0] in _MULTIPLIERS:
        factor *= _MULTIPLIERS[words.pop(0)]
    if not words or words == ["%"]:
        return factor, "".join(words)
    if not _UNIT.match(words[0]) or _NO_UNIT.search(text):
        return factor, None
    return factor, " ".join(_UNIT_NAMES.get(word) or _singular(word) for word in words)


def _singular(word: str) -> str:
    singular = word.removesuffix("s") if not word.endswith("ss") else word
    return _UNIT_NAMES.get(singular, singular)


_FRACTION_SLASH = "\u2044"
_TYPESETTING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r" \1/\2"),
        (r"\\[dt]?frac\s*(\d)\s*(\d)", r" \1/\2"),
        (r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}", r" \1"),
        (r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)", "°"),
        (r"\\(?:times|cdot)", "x"),
        (r"\^\s*\{\s*([+-]?\d+)\s*\}", r"^\1"),
        (r"\{,\}", ","),
        (r"(?<=\d)\\[,!;: ](?=\d)", ""),
        (r"\\[,!;: ]|~", " "),
        (r"\\([$%])", r"\1"),
        (r"[\u2212\u2013]", "-"),
        (_FRACTION_SLASH, "/"),
    )
)


def _without_typesetting(text: str) -> str:
    text = strip_math_marks(text)
    # Normalizing the whole text at once would turn "2½" into "21/2".
    parts = (unicodedata.normalize("NFKC", char) for char in text)
    text = "".join(f" {part}" if _FRACTION_SLASH in part else part for part in parts)
    for pattern, replacement in _TYPESETTING:
        text = pattern.sub(replacement, text)
    return text.strip()
