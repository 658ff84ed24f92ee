r"""Names of quantities in formulas, and expressions of several names that are one quantity to be found.

x, AB, \angle A, f(2), P(A)                names
m+n, 100m+n, AB+BC, |AB|, |z|             quantities to be found: `m+n = 25` states 25
x^2, 2x, x+1, |x|, 2x+3y, x^2+y^2         equations to be solved, and curves: `x^2 = 25` does not state 25
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nemo_gym.verify.notation import normalize_spelling

_ARGUMENT = r"(?:\\cdot\s*)?\([^()=<>]{0,20}\)"
_NAME = re.compile(
    r"(?:m\s*)?(?:\\(?:angle|overline|bar|hat|vec|text|mathrm|operatorname|Delta|triangle)\s*)*\{?"
    r"(?:\\[a-zA-Z]+|[a-zA-Z]{1,3}|(?<=\{)[a-zA-Z ]+)\}?(?:_\{?\w{1,5}\}?)?'*\s*(?:\\cdot)?\s*(?:\([^()=<>]{0,20}\))?"
    rf"|[a-zA-Z](?:_\{{?\w{{1,5}}\}}?)?\^\{{(?:-1|\(\w\))\}}\s*{_ARGUMENT}"
    r"|(?:P|Pr|E|Var|\\mathbb\{[PE]\})\s*(?:\\cdot\s*)?(?:\([^()]{1,40}\)|\[[^\[\]]{1,40}\])"
    r"|\\(?:sin|cos|tan|cot|sec|csc)\s*(?:\(?(?:\\[a-zA-Z]+|[a-zA-Z]{1,3})\)?)"
    r"|\\(?:lim|int|sum|prod)(?![a-zA-Z]).*|\(\s*[a-zA-Z](?:\s*,\s*[a-zA-Z])+\s*\)"
    r"|\\begin\{pmatrix\}[\sa-zA-Z\\&]+\\end\{pmatrix\}"
    rf"|\(\s*[a-zA-Z]\s*(?:\\circ\s*[a-zA-Z]\s*)+\)\s*{_ARGUMENT}"
    r"|\\frac\s*\{d\}\{d[a-zA-Z]\}\s*(?:\\cdot\s*)?[a-zA-Z](?:\([a-zA-Z]\))?"
    r"|\\frac\s*\{d(?:\^\{\d\})?[a-zA-Z]?\}\{d[a-zA-Z](?:\^\{\d\})?\}"
)


def is_name(text: str) -> bool:
    """Return whether `text` names a quantity: a variable, an index, a function of something, a segment."""
    text = re.sub(r"\\mathrm\s*\{([a-zA-Z])\}", r"\1", text)
    return _NAME.fullmatch(text.strip()) is not None and normalize_spelling(text).strip() not in _CONSTANTS


_CONSTANTS = frozenset({"\\pi", "e", "i", "\\infty", "\\emptyset"})


def is_statement(text: str) -> bool:
    """Return whether `text` is one letter or its negation, as statements are in logic."""
    return re.fullmatch(r"(?:\\(?:neg|lnot)\s*)?[a-zA-Z]", text.strip()) is not None


_REAL = re.compile(r"(?P<name>[a-zA-Z])\s*\\in\s*\\mathbb\{R\}")


def drop_domains(parts: list[str]) -> list[str]:
    r"""Remove `x \in \mathbb{R}` beside a statement about x."""
    names = [match["name"] if (match := _REAL.fullmatch(part)) else None for part in parts]
    return [
        part
        for part, name in zip(parts, names, strict=True)
        if name is None
        or not any(name in other for other, own in zip(parts, names, strict=True) if own is None)
    ]


_MODULUS_BOUND = re.compile(
    r"\|\s*(?P<name>[a-zA-Z])\s*\|\s*(?P<operator><|>|\\le|\\ge)(?![a-zA-Z])(?P<bound>[^|<>=]+)"
)


def write_out_modulus(text: str) -> str:
    """Return a bound of a modulus as inequalities: `|x| < 1` is `-(1) < x < 1`, `|x| > 1` is `x < -(1) or x > 1`."""
    match = _MODULUS_BOUND.fullmatch(text.strip())
    if match is None or match["name"] in "zw":
        return text
    name, operator, bound = match["name"], match["operator"], match["bound"].strip()
    if operator in ("<", "\\le"):
        return f"-({bound}) {operator} {name} {operator} {bound}"
    below = "<" if operator == ">" else "\\le"
    return f"{name} {below} -({bound}) or {name} {operator} {bound}"


_RESIDUE = re.compile(
    r"(?P<value>[^,;=<>]*[^\s,;(\\=<>])[\s\\]*(?P<modulus>\\pmod\s*(?:\{[^{}]*\}|\d)|\(\s*(?:\\?b?mod|\\text\s*\{\s*mod\s*\})\s*\w+\s*\))"
)


def split_modulus(text: str) -> tuple[str, str] | None:
    r"""Return a value and its modulus, `3` and `\pmod{7}` of `3 \pmod{7}`; None for a congruence and other texts."""
    found = _RESIDUE.fullmatch(text)
    return (found["value"], found["modulus"]) if found and "\\equiv" not in found["value"] else None


_FREE_INTEGER = re.compile(
    r"(?P<formula>.*?\S)[\s,;(]+(?:(?:where|for|with|and)\s+)?(?:(?:any|all|every|some|each)\s+)?"
    r"(?:integers?\s+(?P<last>[a-zA-Z])|(?P<first>[a-zA-Z])\s*(?:\\in\s*\\mathbb\{Z\}|(?:is\s+|being\s+)?(?:an|any)\s+integer))"
    r"[\s).]*",
    re.DOTALL,
)
_N = re.compile(r"(?<![a-zA-Z\\])n(?![a-zA-Z])")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")


def name_free_integer(text: str) -> str:
    r"""Return a formula of any integer with n for its name: `k\pi, k \in \mathbb{Z}` is `n\pi, n \in \mathbb{Z}`."""
    found = (
        _FREE_INTEGER.fullmatch(_TEXT.sub(r" \1 ", normalize_spelling(text)))
        if "nteger" in text or "Z" in text or "ℤ" in text
        else None
    )
    if found is None:
        return text
    name = re.compile(rf"(?<![a-zA-Z\\]){found['first'] or found['last']}(?![a-zA-Z])")
    formula = found["formula"].rstrip(" ,;(")
    if name.search(formula) is None or _N.search(name.sub("", formula)):
        return text
    return rf"{name.sub('n', formula)}, n \in \mathbb{{Z}}"


_TERM_NAME = re.compile(
    r"\\(?:vec|overline|bar|hat|mathbf|mathrm|angle|triangle)\s*\{?\s*[a-zA-Z]{1,3}\}?(?:_\{?\w{1,5}\}?)?"
    r"|\[[A-Z]{3,6}\]|\\[a-zA-Z]+|[a-zA-Z]\s*\(\s*-?(?:\d+|[A-Z])\s*\)|[A-Z]{2,4}(?![a-z])"
    r"|[a-zA-Z](?:_\{?\w{1,5}\}?)?'*"
)
_NO_NAMES = frozenset((
    "\\frac", "\\cdot", "\\sqrt", "\\pi", "\\circ", "\\infty", "\\vec", "\\overline", "\\bar", "\\hat", "e", "i",
))  # fmt: skip
_SOLVED_FOR = re.compile(
    r"\\(?:sin|cos|tan|cot|sec|csc|log|ln|exp|lim|int|sum|prod|pm|mp)(?![a-zA-Z])|\\text|[=<>,;]"
)
_ADDED_NUMBER = re.compile(r"(?:^|[({|])\s*-?\d+(?:\.\d+)?\s*[+-]|[+-]\s*\d+(?:\.\d+)?\s*(?=$|[+\-)}|])")
_MODULUS = re.compile(r"\|(?P<inner>[^|]+)\|")
_COORDINATES = frozenset("xyz")


def names_one_value(text: str) -> bool:
    r"""Return whether an expression of names is a quantity to be found, so that `m+n = 25` states 25.

    It has two different names or more, and no number is added to it. It has others than the coordinates x, y
    and z, because `x+y = 3` and `x^2+y^2 = 25` are curves. A modulus is one of a point, a segment, a vector, a
    set or a complex number: `|x| = 5` has two solutions.
    """
    text = text.strip()
    modulus = _MODULUS.fullmatch(text)
    inner = modulus["inner"].strip() if modulus else text
    if _SOLVED_FOR.search(inner) or "|" in inner or _ADDED_NUMBER.search(inner):
        return False
    names = set(_TERM_NAME.findall(inner)) - _NO_NAMES
    if modulus and is_name(inner):
        return re.match(r"[zw](?![a-zA-Z])|[A-Z]|\\(?:vec|overline|mathbf)", inner) is not None
    return len(names) > 1 and not names <= _COORDINATES


def write_both_signs(text: str) -> Iterator[str]:
    r"""Yield a formula with the upper and with the lower sign of its `\pm` and `\mp`."""
    for upper, lower in (("+", "-"), ("-", "+")):
        signed = re.sub(r"\\pm(?![a-zA-Z])", upper, text)
        yield re.sub(r"\\mp(?![a-zA-Z])", lower, signed).lstrip("+ ")
