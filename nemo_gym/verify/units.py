r"""Units of measurement: their names, dimensions and factors.

    read_unit("km/h")       Unit({"length": 1, "time": -1}, Fraction(1000, 3600))
    read_unit("apples")     Unit({"apple": 1}, Fraction(1))        a counted thing is a dimension of its own
    read_unit("xy")         None

Units of one dimension convert into each other (5 km is 5000 m), and others never match (5 km is not 5 s). A word of
fewer than four letters must be a known name: "3 xy" is a product, not three "xy".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from nemo_gym.verify._counted_things import MULTIPLIERS, may_start_thing, names_thing

__all__ = ["DEGREE", "NO_UNIT", "PERCENT", "RADIAN", "Unit", "are_comparable", "find_unit", "read_unit"]

MAX_WORDS = 12
MAX_CHARS = 400
"""A longer text names no unit."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A product of powers of dimensions, and its size in base units."""

    dimensions: frozenset[tuple[str, int]] = frozenset()
    """Pairs of a dimension and its exponent, without zeros."""
    factor: Fraction = Fraction(1)

    @property
    def is_given(self) -> bool:
        return bool(self.dimensions)

    @property
    def is_rate(self) -> bool:
        """True if it is per something, and of nothing: "per day"."""
        return self.is_given and all(exponent < 0 for _, exponent in self.dimensions)

    def times(self, other: Unit) -> Unit:
        """Return the product of two units without a common dimension."""
        return Unit(self.dimensions | other.dimensions, self.factor * other.factor)


NO_UNIT = Unit()

_INCH = Fraction(254, 10_000)
_POUND = Fraction(45_359_237, 10**8)
_PREFIXES = (("k", "kilo", 3), ("c", "centi", -2), ("d", "deci", -1), ("m", "milli", -3), ("µ", "micro", -6),
             ("n", "nano", -9), ("M", "mega", 6), ("G", "giga", 9))  # fmt: skip
_METRIC = (
    ("length", "m", "meter metre", Fraction(1)),
    ("mass", "g", "gram gramme", Fraction(1, 1000)),
    ("volume", "l", "liter litre", Fraction(1, 1000)),
    ("volume", "L", "", Fraction(1, 1000)),
    ("time", "s", "second sec", Fraction(1)),
    ("energy", "J", "joule", Fraction(1)),
    ("force", "N", "newton", Fraction(1)),
    ("power", "W", "watt", Fraction(1)),
    ("voltage", "V", "volt", Fraction(1)),
    ("current", "A", "ampere amp", Fraction(1)),
    ("pressure", "Pa", "pascal", Fraction(1)),
    ("frequency", "Hz", "hertz", Fraction(1)),
    ("amount", "mol", "mole", Fraction(1)),
    ("energy", "cal", "calorie", Fraction(4184, 1000)),
    ("data", "B", "byte", Fraction(1)),
    ("resistance", "Ω", "ohm", Fraction(1)),
    ("energy", "Wh", "", Fraction(3600)),
    ("energy", "eV", "electronvolt", Fraction(1_602_176_634, 10**28)),
    ("sound", "dB", "decibel", Fraction(1)),
)
_PLAIN = (
    "tesla", "farad", "henry", "weber", "coulomb", "lumen", "lux", "candela", "siemens", "sievert", "becquerel", "knot",
    "horsepower", "hp", "rpm", "yuan", "rupee", "baht", "peso", "franc", "ruble", "rand", "dirham",
)  # fmt: skip
"""Units that convert into no other."""
_OTHERS: tuple[tuple[str, str, Fraction], ...] = (
    ("length", "in inch inches", _INCH),
    ("length", "ft foot feet", 12 * _INCH),
    ("length", "yd yard", 36 * _INCH),
    ("length", "mi mile", 63_360 * _INCH),
    ("mass", "lb lbs pound", _POUND),
    ("mass", "oz ounce", _POUND / 16),
    ("mass", "ton tonne", Fraction(1000)),
    ("time", "min minute mins", Fraction(60)),
    ("time", "h hr hrs hour", Fraction(3600)),
    ("time", "day", Fraction(86_400)),
    ("time", "week wk wks", Fraction(604_800)),
    ("month", "month", Fraction(1)),
    ("month", "year yr yrs", Fraction(12)),
    ("angle", "° degree deg", Fraction(1)),
    ("radian", "rad radian", Fraction(1)),
    ("temperature", "K kelvin", Fraction(1)),
    ("celsius", "°C celsius °c", Fraction(1)),
    ("fahrenheit", "°F fahrenheit °f", Fraction(1)),
    ("pressure", "atm", Fraction(101_325)),
    ("pressure", "psi", _POUND * Fraction(980_665, 100_000) / _INCH**2),
    ("volume", "gal gallon", 231 * _INCH**3),
    ("volume", "qt quart", 231 * _INCH**3 / 4),
    ("volume", "pint", 231 * _INCH**3 / 8),
    ("area", "acre", 43_560 * (12 * _INCH) ** 2),
    ("area", "ha hectare", Fraction(10_000)),
    ("dollar", "$ usd dollar", Fraction(1)),
    ("dollar", "¢ cent", Fraction(1, 100)),
    ("euro", "€ eur euro", Fraction(1)),
    ("sterling", "£ gbp", Fraction(1)),
    ("yen", "¥ jpy yen", Fraction(1)),
    ("percent", "% percent pct", Fraction(1)),
    ("data", "bit", Fraction(1, 8)),
    *((name, name, Fraction(1)) for name in _PLAIN),
)
_POWERS_OF_LENGTH = {"area": ("length", 2), "volume": ("length", 3)}
_PHRASES = {"per cent": "%"} | {
    f"{degree} {name}": symbol
    for symbol, names in (("°C", ("c", "celsius")), ("°F", ("f", "fahrenheit")))
    for name in names
    for degree in ("degree", "degrees")
}
_SPEEDS = (("mph", 63_360 * _INCH / 3600), ("kph", Fraction(1000, 3600)), ("kmh", Fraction(1000, 3600)))


def _table() -> dict[str, Unit]:
    table: dict[str, Unit] = {}

    def add(dimension: str, names: Iterable[str], factor: Fraction) -> None:
        unit = Unit(frozenset({_POWERS_OF_LENGTH.get(dimension, (dimension, 1))}), factor)
        for name in names:
            table[name] = unit
            if len(name) > 2:
                table[f"{name}s"] = unit

    for dimension, names, factor in _OTHERS:
        add(dimension, names.split(), factor)
    for dimension, symbol, words, factor in _METRIC:
        add(dimension, (symbol, *words.split()), factor)
        for short, long, power in _PREFIXES:
            scaled = factor * Fraction(10) ** power
            add(dimension, (short + symbol, *(long + word for word in words.split())), scaled)
    for name, factor in _SPEEDS:
        table[name] = Unit(frozenset({("length", 1), ("time", -1)}), factor)
    return table | {phrase: table[symbol] for phrase, symbol in _PHRASES.items()}


_UNITS: Mapping[str, Unit] = _table()
_POUNDS = {_UNITS["pound"], _UNITS["£"]}
"""The mass and the money have one name."""
PERCENT, DEGREE, RADIAN = _UNITS["%"], _UNITS["°"], _UNITS["rad"]
_POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_RATE = re.compile(r"\s*/\s*|(?<=\w)\s+(?:every|each|a)\s+(?=(?:second|minute|hour|day|week|month|year)\b)")
_PART = re.compile(r"(?P<name>[^\W\d_]+\.?|°[CFcf]?|[$€£¥%¢])(?:\^?(?P<power>-?[1-9]))?")


def read_unit(text: str, *, is_single: bool = True) -> Unit | None:
    """Return the unit that `text` names as a whole; None when it is anything else, `NO_UNIT` for an empty text.

    `is_single` says whether the number before it may be one, so that a counted thing is in the singular.
    """
    text = text.strip().rstrip(".")
    if len(text) > MAX_CHARS:
        return None
    words = _RATE.sub(" per ", text.replace("·", " ")).split()
    if len(words) > MAX_WORDS:
        return None
    whole = _UNITS.get(" ".join(words).lower()) if len(words) > 1 else None
    return whole or _product(words, is_single=is_single)


def read_counted(text: str, number: Fraction) -> tuple[int, Unit | None]:
    """Return the factor and the unit that the words after `number` mean: `million dollars`, `dozens of eggs`.

    The unit is None if the words are not one.
    """
    words = text.split()
    factor = 1
    while words and (multiplier := _multiplier(words[0].lower())):
        factor *= multiplier
        words = words[2:] if len(words) > 2 and words[1].lower() == "of" else words[1:]
    return factor, read_unit(" ".join(words), is_single=number * factor <= 1)


def _multiplier(word: str) -> int | None:
    return MULTIPLIERS.get(word) or MULTIPLIERS.get(word.removesuffix("s"))


def are_comparable(one: Unit, other: Unit) -> bool:
    """Return whether quantities in both units can be equal. A unit that is not given may be any."""
    if not one.is_given or not other.is_given or one.dimensions == other.dimensions:
        return True
    return {one, other} == _POUNDS


def _product(words: Sequence[str], *, is_single: bool) -> Unit | None:
    """Return the product of the units in `words`; words that are no unit name one counted thing ("red apples")."""
    dimensions: Counter[str] = Counter()
    things: list[str] = []
    factor, side, power = Fraction(1), 1, 1
    for word in words:
        if word.lower() == "per":
            side = -1
        elif word.lower().rstrip(".") in _POWERS:
            power = _POWERS[word.lower().rstrip(".")]
        else:
            part = _PART.fullmatch(word)
            known = find_unit(part["name"]) if part else None
            if part is None or (known is None and not things and not may_start_thing(part["name"].lower())):
                return None
            if known is None:
                things.append(f"{'per ' * (side < 0)}{part['name'].lower()}")
                continue
            exponent = side * power * int(part["power"] or 1)
            power = 1
            factor *= known.factor**exponent
            for dimension, own in known.dimensions:
                dimensions[dimension] += own * exponent
    if power != 1 and not things:
        return None
    if things:
        thing_words = [word for thing in things for word in thing.split()]
        if not names_thing(thing_words, is_single=is_single or bool(dimensions)):
            return None
        dimensions[" ".join(map(_singular, things))] += 1
    return Unit(frozenset((name, count) for name, count in dimensions.items() if count), factor)


def find_unit(name: str) -> Unit | None:
    """Return a unit by its symbol, whose case matters (mW is not MW), or by its name."""
    name = name.rstrip(".")
    return _UNITS.get(name) or (_UNITS.get(name.lower()) if len(name) > 1 else None)


def _singular(word: str) -> str:
    return word if word.endswith("ss") else word.removesuffix("s")
