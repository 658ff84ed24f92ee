"""Near misses of a quantity, a number with its unit such as `84 km`: another unit of the same kind, another number."""

from __future__ import annotations

import re
from collections.abc import Iterator

_QUANTITY = re.compile(r"([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(\s*)([^\W\d_]+|%|°[CF]?)(\.?)")
_UNITS = (
    ("mm", "cm", "m", "km"), ("mg", "g", "kg", "t"), ("ml", "cl", "l", "hl"), ("s", "min", "h", "d"),
    ("inches", "feet", "yards", "miles"), ("seconds", "minutes", "hours", "days", "weeks", "months", "years"),
    ("metres", "kilometres", "centimetres"), ("meters", "kilometers", "centimeters"), ("grams", "kilograms"),
    ("W", "kW", "MW"), ("V", "mV", "kV"), ("J", "kJ", "MJ"), ("Pa", "kPa", "MPa"), ("Hz", "kHz", "MHz"),
    ("EUR", "USD", "GBP"), ("euros", "dollars", "pounds"), ("cents", "dollars"), ("°C", "°F"),
)  # fmt: skip
"""Units of one kind, no two of which are the same."""


def miss_quantity(gold: str) -> Iterator[tuple[str, str]]:
    """Yield wrong quantities with their classes; none if `gold` is no number with a known unit."""
    found = _QUANTITY.fullmatch(gold.strip())
    kind = next((units for units in _UNITS if found is not None and found[3] in units), None)
    if found is None or kind is None:
        return
    place = kind.index(found[3])
    for other in {kind[place - 1], kind[(place + 1) % len(kind)]} if re.search("[1-9]", found[1]) else ():
        yield "another unit", f"{found[1]}{found[2]}{other}{found[4]}"
    whole, point, decimals = found[1].replace(",", "").partition(".")
    yield "another number with its unit", f"{int(whole) + 1}{point}{decimals}{found[2]}{found[3]}{found[4]}"
