"""Most overrides are plain: a key of names, and a word, a whole number or a list of those. They read without Hydra,
whose import takes a tenth of a second, and come to what Hydra's grammar makes of them."""

from __future__ import annotations

import math
import re

_WORD = r"(?:(?:\.{0,2}/|[A-Za-z_])[\w/.:@%*?|+-]*|[+-]?(?:0|[1-9][0-9]*))"
_NAME = r"[A-Za-z_][\w-]*"
_KEY = re.compile(rf"{_NAME}(?:\.{_NAME})*", re.ASCII)
_VALUE = re.compile(rf"{_WORD}|\[\s*(?:{_WORD}(?:\s*,\s*{_WORD})*)?\s*\]", re.ASCII)
_NAMED = {"true": True, "false": False, "null": None, "inf": math.inf, "nan": math.nan}

Plain = str | int | float | None


def is_plain(key: str, value: str) -> bool:
    """Whether `read_plain` understands `value`, and `key` is a key everywhere."""
    return bool(_KEY.fullmatch(key) and _VALUE.fullmatch(value))


def read_plain(value: str) -> Plain | list[Plain]:
    """What a plain value means."""
    if not value.startswith("["):
        return _read_word(value)
    inside = value[1:-1].strip()
    return [_read_word(word.strip()) for word in inside.split(",")] if inside else []


def _read_word(word: str) -> Plain:
    if word[-1].isdigit() and word.lstrip("+-").isdigit():
        return int(word)
    return _NAMED.get(word.lower(), word)
