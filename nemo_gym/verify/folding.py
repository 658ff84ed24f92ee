"""Fold the compatibility forms of Unicode (full-width letters, ligatures) into plain ones, and keep every number.

NFKC alone makes other numbers: `10²` becomes 102, `2⅛` becomes 21⁄8 and `10②` becomes 102.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import groupby

_SAME_NUMBER = frozenset({"<wide>", "<narrow>", "<font>"})
"""The forms whose digits are ordinary ones in another shape."""
_MARKS = {"<super>": "^", "<sub>": "_"}
_NUMBER_END = re.compile(r"\d\Z")
_BASE_END, _SIGNED = re.compile(r"[\d)\]}]\Z"), re.compile(r"[+−]\d")


def fold_compatibility(text: str) -> str:
    """Return the NFKC form of `text`, except that a raised, lowered, circled or fraction digit joins no other digit.

    `10²` becomes `10^2`, `10₂` becomes `10_2` and `2½` becomes `2 1⁄2`. Beside a letter, and in the charge of a
    molecule, nothing is marked: `CO₂` becomes `CO2`.
    """
    if text.isascii():
        return text
    runs = [(kind, "".join(characters)) for kind, characters in groupby(text, _find_kind)]
    folded, last = "", ""
    for kind, run in runs:
        plain = unicodedata.normalize("NFKC", run) if kind in ("", *_MARKS) else " ".join(map(_fold, run))
        is_signed = kind == "<super>" and _SIGNED.match(plain) is not None
        is_charge = last == "<sub>" and plain.endswith(("+", "−"))
        before = _BASE_END if kind == "<super>" else _NUMBER_END
        is_joined = (
            (kind or last) and plain[:1].isdecimal() and (before.search(folded) or (last and not kind))
        )
        folded += _MARKS.get(kind, " ") + plain if is_signed or (is_joined and not is_charge) else plain
        last = kind
    return folded


def _fold(char: str) -> str:
    return unicodedata.normalize("NFKC", char)


@lru_cache(maxsize=4096)
def _find_kind(char: str) -> str:
    """Return the form of a character that stands for digits of their own; "" for any other character."""
    kind = unicodedata.decomposition(char).partition(" ")[0]
    if not kind.startswith("<") or kind in _SAME_NUMBER:
        return ""
    return kind if any(part.isdecimal() or part in "+−" for part in _fold(char)) else ""
