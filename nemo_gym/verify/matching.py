"""Comparison of texts, sets and sequences after normalization. Pure functions."""

from __future__ import annotations

import re
import unicodedata

from nemo_gym.verify._notation import is_same_spelling, spelled

_PUNCTUATION = " .,;:!?\"'"
_LEADING = re.compile(r"\A(?:[ ,;:!?\"']|\.{2,}|\.(?!\d))+")
_TYPOGRAPHIC = str.maketrans("‘’‛ʼ′“”„–—−", "'''''\"\"\"---")
_FACTORIAL = re.compile(r"(?:[\d)\]}]|\b[^\W\d_])!+$")


def normalize(text: str) -> str:
    """Fold compatibility forms (full-width letters, ligatures), typographic marks and case, and trim both ends.

    The marks of a factorial and of a decimal stay: `5!` is not 5, nor is `.5`.
    """
    trimmed = _LEADING.sub("", " ".join(_folded(text).split()))
    without_marks = trimmed.rstrip(_PUNCTUATION.replace("!", ""))
    is_factorial = without_marks.endswith("!") and _FACTORIAL.search(without_marks) is not None
    return without_marks if is_factorial else trimmed.rstrip(_PUNCTUATION)


def _folded(text: str) -> str:
    if text.isascii():  # a quarter of the time, for answers with a hundred thousand members
        return text.lower()
    return unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHIC)).casefold().translate(_TYPOGRAPHIC)


def is_same_text(expected: str, answer: str) -> bool:
    """Return whether both texts are the same after `normalize`. Nothing equals the empty text."""
    wanted = normalize(expected)
    return bool(wanted) and wanted == normalize(answer)


def is_same_formula(one: str, other: str) -> bool:
    r"""Return whether two formulas have one spelling: `x^2` is `$x^{2}$`, and not `x\cdot x`."""
    return is_same_spelling(spelled(one), spelled(other))


def whole_words(phrase: str) -> str:
    """Return the pattern of `phrase` as whole words. A number is whole: 5 is not in 5.2, 1,005 or -5."""
    before = r"(?<!\w)(?<!\d[.,])(?<![^\w\s)]-)(?<!\s-)(?<!^-)" if phrase[:1].isdigit() else r"(?<!\w)"
    after = r"(?![.,]?\d)(?!\w)" if phrase[-1:].isdigit() else r"(?!\w)"
    return f"{before}{re.escape(phrase)}{after}"


_NEGATION = r"(?:not|no|never|neither|nor|without|except|cannot|\w+n't|wrong|incorrect|false|unlikely)"
_HEDGE = r"(?:or|either|maybe|perhaps|possibly)"
DENIAL = re.compile(rf"(?<!\w)(?:{_NEGATION}|{_HEDGE})(?!\w)")
"""Words, after `normalize`, by which a statement denies what it names, or leaves it open."""


def says(text: str, phrase: str) -> bool:
    """Return whether `text` contains `phrase` as whole words and does not deny it: "not Rome" is not Rome."""
    wanted = normalize(phrase)
    said = normalize(text)
    if not wanted:
        return False
    beside = re.sub(whole_words(wanted), " ", said)
    return beside != said and DENIAL.search(beside) is None
