"""Comparison of texts, sets and sequences after normalization. Pure functions."""

from __future__ import annotations

import re

from nemo_gym.verify._rewriting import Rewriting
from nemo_gym.verify.folding import fold_compatibility
from nemo_gym.verify.notation import is_same_spelling, normalize_spelling, write_scripts
from nemo_gym.verify.typesetting import strip_typesetting, unwrap_text

__all__ = [
    "DENIAL",
    "is_same_formula",
    "is_same_molecule",
    "is_same_text",
    "normalize",
    "says",
    "strip_commands",
    "whole_words",
]

_PUNCTUATION = " .,;:!?\"'"
_LEADING = re.compile(r"\A(?:[ ,;:!?\"']|\.{2,}|\.(?!\d))+")
_TYPOGRAPHIC = str.maketrans("‘’‛ʼ′“”„–—−", "'''''\"\"\"---")
_FACTORIAL = re.compile(r"(?:[\d)\]}]|\b[^\W\d_])!+$")


def normalize(text: str) -> str:
    """Fold compatibility forms (full-width letters, ligatures), typographic marks and case, and trim both ends.

    The marks of a factorial and of a decimal stay: `5!` is not 5, nor is `.5`.
    """
    trimmed = _LEADING.sub("", " ".join(_fold(text).split()))
    without_marks = trimmed.rstrip(_PUNCTUATION.replace("!", ""))
    is_factorial = without_marks.endswith("!") and _FACTORIAL.search(without_marks) is not None
    return without_marks if is_factorial else trimmed.rstrip(_PUNCTUATION)


def _fold(text: str) -> str:
    if text.isascii():  # a quarter of the time, for answers with a hundred thousand members
        return text.lower()
    return fold_compatibility(text.translate(_TYPOGRAPHIC)).casefold().translate(_TYPOGRAPHIC)


def is_same_text(expected: str, answer: str) -> bool:
    """Return whether both texts are the same after `normalize`. Nothing equals the empty text."""
    wanted = normalize(expected)
    return bool(wanted) and wanted == normalize(answer)


def strip_commands(text: str) -> str:
    r"""Return a text without math marks, typesetting and the commands around words, such as `\text{…}`."""
    return unwrap_text(strip_typesetting(text)).replace("\\ ", " ").strip()


def is_same_formula(one: str, other: str) -> bool:
    r"""Return whether two formulas have one spelling: `x^2` is `$x^{2}$`, and not `x\cdot x`.

    A quotient may be a fraction (`\pi/2` is `\frac\pi2`), a product may have spaces (`mv` is `m v`), and the numbers of
    atoms may be lowered or not (`CO2` is `\text{CO}_2`).
    """
    if is_same_molecule(one, other):
        return True
    one, other = normalize_spelling(one), normalize_spelling(other)
    return is_same_spelling(one, other) or _write_products(one) == _write_products(other)


def is_same_molecule(one: str, other: str) -> bool:
    """Return whether both texts are one chemical formula, with lowered numbers or without."""
    molecule = _write_molecule(one)
    return molecule is not None and molecule == _write_molecule(other)


_CHEMISTRY = re.compile(r"\\(?:ce|mathsf)\s*\{(.*)\}")
_COUNT = re.compile(r"_\{?(\d+)\}?")
_CHARGE = re.compile(r"\^\{?(\d*[+-])\}?")
_ATOM = r"[A-Z][a-z]?\d*"
_MOLECULE = re.compile(rf"\d*(?:{_ATOM}|[(\[](?:{_ATOM})+[)\]]\d*)+(?:\^\d*[+-])?")


def _write_molecule(text: str) -> str | None:
    r"""Return the line of a chemical formula: `CO2` for `\text{CO}_2`; None for another text."""
    text = unwrap_text(_CHEMISTRY.sub(r"\1", write_scripts(text.replace("$", ""))))
    line = _CHARGE.sub(r"^\1", _COUNT.sub(r"\1", "".join(text.split())))
    return line if _MOLECULE.fullmatch(line) else None


_BRACED = r"\{(?:[^{}]|\{[^{}]*\})*\}"
_VARIABLE = r"\\(?:pi|alpha|beta|gamma|delta|epsilon|theta|lambda|mu|rho|sigma|tau|phi|omega|hbar)(?![a-zA-Z])|[a-zA-Z]"
_SCRIPTS = rf"(?:\s*[_^]\s*(?:{_BRACED}|[a-zA-Z0-9]))*"
_FACTOR = rf"(?:(?:\d+(?:\.\d+)?(?!\d)|\\sqrt\s*{_BRACED}|{_VARIABLE}|\([^()]*\)){_SCRIPTS})"
_QUOTIENT_SPELLINGS = Rewriting(
    (
        (r"\\frac\s*(\\[a-zA-Z]+|[a-zA-Z0-9])", r"\\frac{\1}"),
        (rf"(\\frac\s*{_BRACED})\s*(\\[a-zA-Z]+|[a-zA-Z0-9])", r"\1{\2}"),
        (r"\((\d+)\s*/\s*(\d+)\)", r"\\frac{\1}{\2}"),
        (r"(?:^|(?<=[-+=({]))\s*(\d+)\s*/\s*(\d+)(?=\s+[a-zA-Z\\])", r"\\frac{\1}{\2}"),
        (
            rf"(?:^|(?<=[-+=,({{]))\s*((?:{_FACTOR}\s*){{1,8}}+)/\s*({_FACTOR})(?=\s*(?:$|[-+=,)}}]))",
            r"\\frac{\1}{\2}",
        ),
        (r"\{\s*\(([^()]*)\)\s*\}", r"{\1}"),
    ),
)
_COMMAND_END = re.compile(r"(\\[a-zA-Z]+)\s*")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s+(?=\d)")
_END, _SEPARATOR = "\0", "\1"


def _write_products(formula: str) -> str:
    """Return a formula with every quotient as a fraction and without the spaces of its products."""
    formula = _QUOTIENT_SPELLINGS.rewrite(formula)
    formula = _BETWEEN_DIGITS.sub(_SEPARATOR, _COMMAND_END.sub(rf"\1{_END}", formula))
    return "".join(formula.split())


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
