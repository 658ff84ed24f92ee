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


# --- Words after a number ---------------------------------------------------------------------------------------------
# Words after a number: a counted thing, or words that make another quantity of it.
#
#     5 red apples, 12 wrong answers                         the things are counted: the number is 5, 12
#     5 billions, 5 divided by two, 5 wrong, 5 below zero    another number, an operation, no answer
#
# No list of nouns is complete, so the form of a phrase decides: it has a noun in the plural (or any word if the
# number is at most one), or a known way to count (`in total`, `of sugar`, `per class`), and none of the words that
# change a quantity: names of numbers and of their parts, operators, relations, denials, hedges and conjunctions. A
# word that describes a noun (`negative`, `wrong`, `sixth`) needs that noun behind it.


MULTIPLIERS = {
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "lakh": 10**5,
    "lac": 10**5,
    "million": 10**6,
    "crore": 10**7,
    "billion": 10**9,
    "milliard": 10**9,
    "trillion": 10**12,
    "quadrillion": 10**15,
    "quintillion": 10**18,
}

_NUMBERS = (
    "zero", "nil", "nought", "naught", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "(?:thir|four|fif|six|seven|eigh|nine)teens?",
    "(?:twen|thir|fou?r|fif|six|seven|eigh|nine)t(?:y|ies)", "twos", "threes", "fours", "fives", "sixes", "sevens",
    "eights", "nines", "tens", "dozens?", "hundreds?", "thousands?", "lakhs?", "lacs?", "crores?", "arab", "kharab",
    "padma", "myriads?", "score", "gross", r"googol\w*", r"\w*illions?", "(?:m|b|tr)illiard", "milliards",
    r"\w*[mb]illon(?:es)?", "mille", "mega", "giga", "tera", "peta", "hecto", "deca", "deci", "centi", "milli",
    "micro", "nano", "pico",
)  # fmt: skip
_PARTS = (
    "half", "halves", "halfs", "thirds?", "quarters?", "fourths", "fifths", "sixths", "sevenths", "eighths", "ninths",
    "tenths", "elevenths", "twelfths", r"\w+t(?:een|ie)ths", "hundredths?", "thousandths?", r"\w+illi(?:on|ard)ths?",
    "permill?e?", "basis", "fraction", "repeating", "recurring",
)  # fmt: skip
_OPERATORS = (
    "plus", "minus", "times", "over", "divided", "divides", "dividing", "multiplied", "multiply", "multiplying",
    "added", "add", "adding", "subtracted", "subtract", "subtracting", "raised", "power", r"exponent\w*", "squared",
    "cubed", "square", "cubic", "root", "sqrt", "cbrt", "radicals?", "factorials?", "chooses?", "permute", "modulo",
    "modulus", "mod", "remainder", "rem", "reciprocals?", "inverses", "inverted", "negated", "negation", "conjugated?",
    "imaginary", "complement", "transposed?", "log", "logarithms?", "doubled", "tripled", "quadrupled", "twice",
    "thrice", "halved", r"\w+fold", "increased", "decreased", "incremented", "decremented", "equals", "equaling",
    "becomes", "approaches", "base", "ternary", "octal", "hex", "hexadecimal", "infinity", "infty", "infinite",
    "infinitely", "sine", "cosine", "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota",
    "kappa", "lambda", "omicron", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "pi",
)  # fmt: skip
_RELATIONS = (
    "than", "least", "most", "below", "beneath", "under", "underneath", "beyond", "exceeds?", "exceeding", "exceeded",
    "upwards?", "downwards?", "onwards?", "up", "down",
)  # fmt: skip
_DENIALS = (
    "not", "no", "non", "never", "neither", "nor", "none", "nothing", "without", "except", "excepting", "excluding",
    "cannot", "incorrectly", "inaccurately", "wrongly", "falsely", "mistakenly", "undefined", "indeterminate",
    "nonexistent", "unsolvable", "refuted", "disproved", "retracted", "withdrawn", "nonsense", "nan",
)  # fmt: skip
_HEDGES = (
    "or", "but", "either", "maybe", "perhaps", "possibly", "probably", "presumably", "supposedly", "allegedly",
    "seemingly", "apparently", "arguably", "conceivably", "hopefully", "potentially", "guess", "guessing", "unsure",
    "uncertain", "unclear", "doubtful", "ish", "otherwise", "alternatively", "alternately", "else", "instead",
    "rather", "versus", "vs", "then", "also", "likewise", "because", "since", "though", "although", "however",
    "unless", "whereas", "while", "assuming", "whether", "depending", "depends", "conversely", "nevertheless",
    "nonetheless", "if", "besides", "backwards?", "forwards", "oops", "always", "across", "thus", "this", "yes",
    "seems", "fails", "contradicts", "appears", "looks", "sounds", "means", "remains", "gives", "yields", "makes",
    "differs", "something", "whatever", "anything", "approximates",
)  # fmt: skip
_CHANGING = re.compile("|".join((*_NUMBERS, *_PARTS, *_OPERATORS, *_RELATIONS, *_DENIALS, *_HEDGES)))
_DESCRIBING = re.compile(
    "negative|wrong|incorrect|inaccurate|false|untrue|invalid|erroneous|mistaken|impossible|unlikely|likely|probable"
    "|possible|unknown|null|void|rejected|denied|excluded|cancell?ed|prime|binary|decimal|fractional|complex|inverse"
    "|opposite|equal|double|triple|quadruple|multiple|repeated|tangent|alternative|minimum|maximum|reduced|grand"
    "|more|less|fewer|higher|lower|greater|smaller|larger|bigger|above|inferior|superior"
    r"|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|\w+t(?:een|ie)th"
)
_PLURAL = re.compile(
    r"\w{2,}(?<![su])s|children|people|brethren|dice|oxen|data|criteria|vertices|minima|maxima|men|women|teeth|feet|mice|geese|police|cattle|sheep|fish|deer"
)
_PREPOSITIONS = frozenset(("of", "per", "in", "for", "every"))
_COUNTING = _PREPOSITIONS | frozenset((
    "total", "left", "remaining", "each", "apiece", "altogether", "overall", "together", "combined", "all", "exactly",
    "only", "old", "tall", "long", "wide", "high", "deep", "thick", "heavy", "away",
    "apart", "ago", "later", "earlier", "profit", "change", "interest", "tax", "tip", "discount", "money",
))  # fmt: skip
"""Words by which a phrase counts without a plural: `42 in total`, `5 feet tall`, `12 inches of rain`."""
_SHORT_WORDS = frozenset((
    "men", "man", "boy", "kid", "cat", "dog", "cow", "hen", "pig", "bee", "ant", "egg", "pie", "pen", "box", "bag",
    "bus", "car", "cup", "hat", "toy", "key", "way", "row", "jar", "lap", "pcs", "art", "big", "ice", "new", "old",
    "pet", "red", "tea", "gas", "sea", "dry", "wet", "hot", "raw", "toe", "leg", "arm", "eye", "web", "fan", "gel",
    "of",
))  # fmt: skip
"""The only words of fewer than four letters that a phrase starts with: others may be products of letters."""


_FOREIGN_SCALE = re.compile(
    r"тыс|мил|млн|млрд|трил|десят|сот|полов|трет|четверт|процент|градус|[万萬億亿兆千百十]|만|억|천|퍼센트|ألف|آلاف|مليون|مليار"
    r"|هزار|हज|लाख|करोड़|nghìn|ngàn|triệu|tỷ|trăm|phần|%|drittel|hälfte|mitjà|mil|milh|tausend"
)
"""Beginnings of words in other languages that make another quantity of a number."""


def changes_quantity(word: str) -> bool:
    """Return whether a word, in lower case, makes another quantity of the number before it."""
    return _CHANGING.fullmatch(word) is not None


def may_start_thing(word: str) -> bool:
    """Return whether a phrase that counts something may start with a word, in lower case."""
    return len(word) >= 4 or word in _SHORT_WORDS


def names_thing(words: Sequence[str], *, is_single: bool) -> bool:
    """Return whether words, in lower case, name something that can be counted.

    `is_single` allows a noun in the singular, as behind 1 and 0.5.
    """
    if words[-1] in _PREPOSITIONS:
        return False
    if any(changes_quantity(word) or (len(word) == 1 and word != "a") for word in words):
        return False
    if not all(word.isascii() for word in words):
        return not any(_FOREIGN_SCALE.match(word) for word in words)
    if any(_DESCRIBING.fullmatch(word) for word in words):
        return _PLURAL.fullmatch(words[-1]) is not None
    return is_single or any(word in _COUNTING or _PLURAL.fullmatch(word) for word in words)
