r"""A quantity that an answer states twice: `90\text{ minutes} = 1.5\text{ hours}`, `1.5 hours (90 minutes)`."""

from __future__ import annotations

import re

from nemo_gym.verify.numbers import is_same_quantity, read_quantity
from resources_servers.math_with_judge.brackets import split_outside_brackets

_EQUALS = re.compile(r"=")
_OR = re.compile(r"\\(?:text|mathrm)\s*\{\s*or\s*\}|(?<![a-zA-Z\\])or(?![a-zA-Z])")
_TEXT = re.compile(r"\\(?:text|mathrm)\s*\{([^{}]*)\}")
_BRACKETED = re.compile(r"(?P<one>[^()]*[^()\s])\s*\((?:=\s*|i\.e\.,?\s+|or\s+)?(?P<other>[^()]+)\)")
_MOST = 4
"""Statements of one quantity."""


def split_restatement(text: str) -> list[str] | None:
    """Return the statements of a quantity; None for another text.

    Those that "=" or brackets join may differ, and then the answer contradicts itself. Different ones that "or" joins
    are several answers, and no restatement.
    """
    equal, either = split_outside_brackets(text, _EQUALS), split_outside_brackets(text, _OR)
    bracketed = _BRACKETED.fullmatch(_TEXT.sub(r" \1 ", text).strip())
    parts = (
        equal
        if len(equal) > 1
        else either
        if len(either) > 1
        else list(bracketed.groups() if bracketed else ())
    )
    if not 1 < len(parts) <= _MOST:
        return None
    quantities = [quantity for part in parts if (quantity := read_quantity(part)) is not None]
    if len(quantities) != len(parts):
        return None
    if parts is either and not all(is_same_quantity(quantities[0], other) for other in quantities):
        return None
    if parts is not equal and parts is not either and not all(one.unit.is_given for one in quantities):
        return None
    return parts
