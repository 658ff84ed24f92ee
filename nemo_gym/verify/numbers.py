r"""Parsing and exact comparison of numbers as people and models write them.

`1,234.50`, `-3/4`, `2 1/2`, `\frac{3}{4}`, `½`, `1.5 \times 10^3`, `2.5 million`, `$18`, `18 dollars`, `12.5%`,
`5\text{ km}`. Values are fractions, so that no precision is lost. A text that is not just a number with an optional
unit (`3x`, `3 or 4`, `1,23`) gives None: a verifier must not find the right number in a text that hedges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction

from nemo_gym.verify._rewriting import Rewriting
from nemo_gym.verify.folding import fold_compatibility
from nemo_gym.verify.notation import write_scripts
from nemo_gym.verify.typesetting import strip_typesetting
from nemo_gym.verify.units import NO_UNIT, PERCENT, Unit, are_comparable, read_counted, read_unit

__all__ = [
    "MAX_CHARS",
    "MAX_EXPONENT",
    "TOLERANCE",
    "Quantity",
    "is_same_quantity",
    "is_same_value",
    "read_quantity",
]

MAX_CHARS = 400
MAX_EXPONENT = 400
"""Larger powers of ten are not parsed: they would exhaust the memory."""

TOLERANCE = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit."""

    value: Fraction
    unit: Unit = NO_UNIT
    is_decimal: bool = field(default=False, compare=False)
    """True if the value was written as a decimal, which may be rounded."""


def is_same_quantity(expected: Quantity, answer: Quantity) -> bool:
    """Return whether the values are the same and the units do not contradict each other.

    A missing unit matches every unit, and units of one dimension convert: 5 km is 5000 m. A percentage equals both the
    number before the sign and its hundredth. For the values see `is_same_value`.
    """
    one, other = expected.unit, answer.unit
    if one.is_given != other.is_given and PERCENT in (one, other):
        shares = (
            _scale(side, Fraction(1, 100)) if side.unit == PERCENT else side for side in (expected, answer)
        )
        return _is_same_value(expected, answer) or _is_same_value(*shares)
    if not are_comparable(one, other):
        return False
    if one.dimensions == other.dimensions:
        expected, answer = _scale(expected, one.factor), _scale(answer, other.factor)
    return _is_same_value(expected, answer)


def _scale(quantity: Quantity, factor: Fraction) -> Quantity:
    return replace(quantity, value=quantity.value * factor)


def is_same_value(one: Fraction, other: Fraction, *, is_rounded: tuple[bool, bool]) -> bool:
    """Return whether two values are the same, or one of them is the other rounded to a decimal.

    A rounded decimal may differ by a millionth of the value, because some fractions have no finite decimal form
    (0.333333 is 1/3, 0.333 is not), and two finite decimals by no more than 0.000001. Integers are not rounded, so that
    0.0 equals only zero.
    """
    rounded = (one.denominator > 1 and is_rounded[0]) or (other.denominator > 1 and is_rounded[1])
    if one == other or not rounded:
        return one == other
    tolerance = max(abs(one), abs(other)) * TOLERANCE
    is_finite = _is_finite_decimal(one) and _is_finite_decimal(other)
    return abs(one - other) <= (min(TOLERANCE, tolerance) if is_finite else tolerance)


def _is_finite_decimal(value: Fraction) -> bool:
    """Return whether the denominator divides a power of ten."""
    return pow(10, value.denominator.bit_length(), value.denominator) == 0


def _is_same_value(one: Quantity, other: Quantity) -> bool:
    return is_same_value(one.value, other.value, is_rounded=(one.is_decimal, other.is_decimal))


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
    (?P<unit>\s*[%°¢€$£¥Ω].*|\s+[^\W\d_].*|{_ATTACHED}.*)?
    """,
    re.VERBOSE,
)

MAX_TERMS = 4
"""Terms of one sum of units."""
_TERMS = re.compile(r"(?<=[^\W\d_])\.?(?:,?\s+and\s+|,?\s+)(?=\d)|\s+and\s+(?=\d)")


def read_quantity(text: str) -> Quantity | None:
    """The quantity that `text` is, as a whole; None when it is anything else."""
    if len(text) > MAX_CHARS:
        return None
    plain = _drop_typesetting(text)
    return _read_term(plain) or _read_sum(plain)


def _read_term(text: str) -> Quantity | None:
    match = _NUMBER.fullmatch(text)
    if match is None or (match["sign"] and match["inner_sign"]) or _is_date(match):
        return None
    value = _read_value(match)
    currency = read_unit(match["currency"])
    if value is None or currency is None:
        return None
    factor, unit = read_counted(match["unit"] or "", value)
    if unit is None:
        return None
    if currency.is_given and unit.is_rate:
        unit = unit.times(currency)
    elif unit.is_given and currency.is_given and not are_comparable(unit, currency):
        return None
    is_negative = "-" in (match["sign"], match["inner_sign"])
    is_decimal = "." in (match["decimal"] or "") or "-" in (match["exponent"] or "")
    return Quantity(
        (-value if is_negative else value) * factor, unit if unit.is_given else currency, is_decimal
    )


def _read_sum(text: str) -> Quantity | None:
    """Return the sum that units of one dimension form, from the largest to the smallest: 2 hours 30 minutes."""
    parts = _TERMS.split(text)
    if not 1 < len(parts) <= MAX_TERMS:
        return None
    total, smallest = Fraction(0), None
    for term in map(_read_term, parts):
        if term is None or term.value < 0 or not term.unit.is_given:
            return None
        if smallest and (term.unit.dimensions != smallest.dimensions or term.unit.factor >= smallest.factor):
            return None
        total, smallest = total + term.value * term.unit.factor, term.unit
    return Quantity(total / smallest.factor, smallest) if smallest else None


def _is_date(match: re.Match[str]) -> bool:
    """Return whether a quotient of whole numbers has a leading zero, as days and months have: 03/04."""
    return any(re.match(r"0\d", match[part] or "") for part in ("top", "bottom"))


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


_FRACTION_SLASH = "\u2044"
_OVERLINE = "\u0305"
_REPEATING = re.compile(
    r"(?P<start>\d*)\.(?P<fixed>\d*)(?:\\(?:overline|bar|dot)\s*\{?(?P<repeated>\d+)\}?|\((?P<bracketed>\d+)\))"
)
_ENDLESS = re.compile(
    r"(?<![\d.])(?P<start>\d*)\.(?P<digits>\d{2,60})\s*(?:\\[lc]?dots(?![a-zA-Z])|\.\.\.|…)\s*\Z"
)
_PERIOD = re.compile(r"(?P<fixed>\d*?)(?:(?P<digit>\d)(?P=digit)+|(?P<block>\d{2,}?)(?P=block)+)")
_ARC = re.compile(
    r"(?P<degrees>\d+)\s*°\s*(?P<minutes>[0-5]?\d)\s*['’′](?:\s*(?P<seconds>[0-5]?\d)\s*(?:[\"”″]|''|′′))?\s*\Z"
)
_TYPESETTING = Rewriting(
    (
        (r"\^\s*[{(]\s*([+-]?\d+)\s*[})]", r"^\1"),
        (r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r" \1/\2"),
        (r"\\[dtc]?frac\s*(\d)\s*(\d)", r" \1/\2"),
        (r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)", "°"),
        (r"\^\s*(?:\{\s*\\prime\s*\\prime\s*\})", '"'),
        (r"\^\s*(?:\{\s*\\prime\s*\}|\\prime(?![a-zA-Z]))", "'"),
        (r"(?<=[a-zA-Z}])\s*\\cdot\s*(?=\\(?:text|mathrm)(?![a-zA-Z])|[a-zA-Z])", " "),
        (r"\\(?:text|mathrm)\s*\{([^{}]*)\}", r" \1"),
        (r"°\s*([CFKcf])(?![a-zA-Z])", r"°\1"),
        (r"\\Omega(?![a-zA-Z])", "Ω"),
        (r"\\(?:times|cdot)", "x"),
        (r"\*\*", "^"),
        (r"\{,\}", ","),
        (r"(?<=\d)\\[,!;:](?=\d{3})", " "),
        (r"\\[,!;: ]|\\q?quad|~", " "),
        (r"\\([$%])", r"\1"),
        (r"[\u2212\u2013]", "-"),
        (_FRACTION_SLASH, "/"),
    ),
)


def _drop_typesetting(text: str) -> str:
    text = write_scripts(strip_typesetting(text))
    text = fold_compatibility(text)
    text = re.sub(rf"\.(\d*?)((?:\d{_OVERLINE})+)", lambda match: f".{match[1]}({match[2]})", text)
    text = _REPEATING.sub(_write_fraction, _ENDLESS.sub(_mark_period, text.replace(_OVERLINE, "")))
    text = _TYPESETTING.rewrite(text)
    text = _ARC.sub(_write_degrees, text)
    return " ".join(text.split()).rstrip(",;").strip()


def _write_fraction(match: re.Match[str]) -> str:
    """Return a repeating decimal as a fraction: 0.1(6) is 15/90."""
    repeated = match["repeated"] or match["bracketed"]
    fixed = match["start"] + match["fixed"]
    top = int(fixed + repeated) - int(fixed or 0)
    return f" {top}/{10 ** len(match['fixed']) * (10 ** len(repeated) - 1)}"


def _mark_period(match: re.Match[str]) -> str:
    """Return a decimal whose last digits repeat with their period in brackets: 0.1666… is 0.1(6)."""
    period = _PERIOD.fullmatch(match["digits"])
    return f"{match['start']}.{period['fixed']}({period['digit'] or period['block']})" if period else match[0]


def _write_degrees(match: re.Match[str]) -> str:
    """Return degrees, minutes and seconds as a fraction of degrees."""
    seconds = 3600 * int(match["degrees"]) + 60 * int(match["minutes"]) + int(match["seconds"] or 0)
    return f"{seconds}/3600°"
