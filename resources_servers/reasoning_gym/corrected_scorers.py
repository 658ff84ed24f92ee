"""Replacements for scorers of the library (version 0.1.25) that a constant answer wins.

`search.py` finds such scorers. A corrected scorer gets the answer, the entry and the
library's scorer; the right answer still scores 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

Entry = dict[str, Any]
"""An item of the library's datasets: `question`, `answer`, `metadata`."""
Scorer = Callable[[str, Entry], float]
CorrectedScorer = Callable[[str, Entry, Scorer], float]

_TOLERANCE = 1e-4
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_NO_ROOTS = frozenset(
    {"", '""', "''", "none", "no solution", "no solutions", "no real solution", "no real solutions"}
)


def score_truth_value(answer: str, entry: Entry, library: Scorer) -> float:
    """Compare the truth value. The library compares `bool` of texts, so that any text is right."""
    return float(answer.strip().casefold() == entry["answer"].casefold())


def score_complex_number(answer: str, entry: Entry, library: Scorer) -> float:
    """Refuse NaN and infinity. The library scores `min(1, exp(-nan))`, which is 1."""
    return 0.0 if re.search(r"nan|inf", answer, re.IGNORECASE) else library(answer, entry)


def score_probability(answer: str, entry: Entry, library: Scorer) -> float:
    """Compare probabilities within a ten-thousandth, and within a half of a smaller one.

    The library gives credit for a common prefix, divided by the shorter text: `0` begins every decimal.
    """
    try:
        given, right = (float(Fraction(text.replace(",", ""))) for text in (answer, entry["answer"]))
    except (ValueError, ZeroDivisionError, OverflowError):
        return 0.0
    return float(abs(given - right) <= min(_TOLERANCE, right / 2))


def score_exact_count(answer: str, entry: Entry, library: Scorer) -> float:
    """Give credit for the right count only. The library gives much to near ones, and most counts are near 7."""
    return float(library(answer, entry) == 1.0)


def score_roots(answer: str, entry: Entry, library: Scorer) -> float:
    """Read plain decimals, as the question asks for. The library drops other words, so that any is "no real roots"."""
    parts = [part.strip() for part in answer.split(",")]
    if not entry["answer"]:
        return float(answer.strip().strip(".").casefold() in _NO_ROOTS)
    return library(answer, entry) if all(map(_DECIMAL.fullmatch, parts)) else 0.0


CORRECTED_SCORERS: Mapping[str, CorrectedScorer] = {
    "coin_flip": score_probability,
    "complex_arithmetic": score_complex_number,
    "game_of_life_halting": score_truth_value,
    "polynomial_equations": score_roots,
    "rectangle_count": score_exact_count,
}
