r"""Parsing and exact comparison of numbers as people and models write them.

`1,234.50`, `-3/4`, `2 1/2`, `\frac{3}{4}`, `½`, `1.5 \times 10^3`, `2.5 million`, `$18`, `18 dollars`, `12.5%`,
`5\text{ km}`. Values are fractions, so that no precision is lost. A text that is not just a number with an optional
unit (`3x`, `3 or 4`, `1,23`) gives None: a verifier must not find the right number in a text that hedges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from nemo_gym.verify._notation import raised
from nemo_gym.verify.answers import strip_math_marks
from nemo_gym.verify.units import NO_UNIT, PERCENT, Unit, are_comparable, read_unit

MAX_CHARS = 400
MAX_EXPONENT = 400
"""Larger powers of ten are not parsed: they would exhaust the memory."""

TOLERANCE = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit."""

    value: Fraction
    unit: Unit = NO_UNIT


def is_same_quantity(expected: Quantity, answer: Quantity) -> bool:
    """Return whether the values are the same and the units do not contradict each other.

    A missing unit matches every unit, and units of one dimension convert: 5 km is 5000 m. A percentage equals both the
    number before the sign and its hundredth. Integers must be equal. Other numbers may differ by a millionth, because
    some fractions have no finite decimal form (0.333333 is 1/3, 0.333 is not).
    """
    one, other = expected.unit, answer.unit
    if one.is_given != other.is_given and PERCENT in (one, other):
        shares = [side.value / 100 if side.unit == PERCENT else side.value for side in (expected, answer)]
        return _is_same_value(expected.value, answer.value) or _is_same_value(*shares)
    if not are_comparable(one, other):
        return False
    if one.dimensions == other.dimensions:
        return _is_same_value(expected.value * one.factor, answer.value * other.factor)
    return _is_same_value(expected.value, answer.value)


def _is_same_value(expected: Fraction, answer: Fraction) -> bool:
    if expected.denominator == answer.denominator == 1:
        return expected == answer
    return abs(expected - answer) <= min(TOLERANCE, max(abs(expected), abs(answer)) * TOLERANCE)


_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?:[ ]\d{3})+(?![\d/])|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_ATTACHED = r"(?:[kcm]m|kg|m[lL]|mph|kph|hrs|mins?|lbs|ft)(?![a-zA-Z])"
"""Units that may follow a number without a space: other letters are variables."""
_NUMBER = re.compile(
    rf"""
    (?P<sign>[+-]?)\s*(?P<currency>(?:[$€£¥]|(?:USD|EUR|GBP)\b)?)\s*(?P<inner_sign>[+-]?)
    (?:
        (?:(?P<whole>{_DIGITS})\s+)?(?P<top>{_DECIMAL})\s*/\s*(?P<bottom>{_DECIMAL})
      | (?P<decimal>{_DECIMAL})(?:\s*(?:[eE]|[x×*]\s*10\^)\s*(?P<exponent>[+-]?\d{{1,4}}))?
    )
    (?P<unit>\s*[%°¢€$£¥].*|\s+[^\W\d_].*|{_ATTACHED}.*)?
    """,
    re.VERBOSE,
)

_MULTIPLIERS = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}


def read_quantity(text: str) -> Quantity | None:
    """The quantity that `text` is, as a whole; None when it is anything else."""
    if len(text) > MAX_CHARS:
        return None
    match = _NUMBER.fullmatch(_without_typesetting(text))
    if match is None or (match["sign"] and match["inner_sign"]):
        return None
    factor, unit = _read_unit(match["unit"] or "")
    value = _read_value(match)
    currency = read_unit(match["currency"])
    if value is None or unit is None or currency is None:
        return None
    if unit.is_given and currency.is_given and not are_comparable(unit, currency):
        return None
    is_negative = "-" in (match["sign"], match["inner_sign"])
    return Quantity((-value if is_negative else value) * factor, unit if unit.is_given else currency)


def _read_value(match: re.Match[str]) -> Fraction | None:
    if match["decimal"] is None:
        whole, top, bottom = (_read_decimal(match[part] or "0") for part in ("whole", "top", "bottom"))
        return whole + top / bottom if bottom else None
    exponent = int(match["exponent"] or 0)
    return (
        _read_decimal(match["decimal"]) * Fraction(10) ** exponent if abs(exponent) <= MAX_EXPONENT else None
    )


def _read_decimal(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").replace(" ", ""))


def _read_unit(text: str) -> tuple[int, Unit | None]:
    """Return the factor and the unit that the words after a number mean; None as the unit when they are not one."""
    words = text.split()
    factor = 1
    while words and words[0].lower() in _MULTIPLIERS:
        factor *= _MULTIPLIERS[words.pop(0).lower()]
    return factor, read_unit(" ".join(words))


_FRACTION_SLASH = "\u2044"
_OVERLINE = "\u0305"
_REPEATING = re.compile(
    r"(?P<start>\d*)\.(?P<fixed>\d*)(?:\\(?:overline|bar|dot)\s*\{?(?P<repeated>\d+)\}?|\((?P<bracketed>\d+)\))"
)
_TYPESETTING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\(?:left|right)(?![a-zA-Z])", ""),
        (r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r" \1/\2"),
        (r"\\[dtc]?frac\s*(\d)\s*(\d)", r" \1/\2"),
        (r"\\(?:text|textbf|textrm|mathrm|mathbf|rm|mbox|operatorname)\s*\{([^{}]*)\}", r" \1"),
        (r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)", "°"),
        (r"\\(?:times|cdot)", "x"),
        (r"\*\*", "^"),
        (r"\^\s*[{(]\s*([+-]?\d+)\s*[})]", r"^\1"),
        (r"\{,\}", ","),
        (r"(?<=\d)\\[,!;:](?=\d{3})", " "),
        (r"\\[,!;: ]|\\q?quad|~", " "),
        (r"\\([$%])", r"\1"),
        (r"[\u2212\u2013]", "-"),
        (_FRACTION_SLASH, "/"),
    )
)


def _without_typesetting(text: str) -> str:
    text = strip_math_marks(text)
    # Normalizing the whole text at once would turn "2½" into "21/2".
    parts = (raised(char) for char in text)
    text = "".join(f" {part}" if _FRACTION_SLASH in part else part for part in parts)
    text = re.sub(rf"\.(\d*?)((?:\d{_OVERLINE})+)", lambda match: f".{match[1]}({match[2]})", text)
    text = _REPEATING.sub(_fraction_of, text.replace(_OVERLINE, ""))
    for pattern, replacement in _TYPESETTING:
        text = pattern.sub(replacement, text)
    return " ".join(text.split()).rstrip(",;").strip()


def _fraction_of(match: re.Match[str]) -> str:
    """Return a repeating decimal as a fraction: 0.1(6) is 15/90."""
    repeated = match["repeated"] or match["bracketed"]
    fixed = match["start"] + match["fixed"]
    top = int(fixed + repeated) - int(fixed or 0)
    return f" {top}/{10 ** len(match['fixed']) * (10 ** len(repeated) - 1)}"
