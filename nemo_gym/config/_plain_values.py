"""Values of overrides that need no grammar: numbers, constants, paths, URLs, names, and flat lists of these.

They are nearly all that is typed, and Hydra takes as long to import as the rest of a command. Every value here means
what it means in Hydra's grammar. Any other value is left to Hydra.
"""

from __future__ import annotations

import math
import re
from typing import Any

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_TEXT = re.compile(r"(?:\.{0,2}/|[A-Za-z_])[A-Za-z0-9_./:-]*(?<!:)")
_CONSTANTS = {"true": True, "false": False, "null": None, "nan": math.nan, "inf": math.inf}
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*")
_BLANK = " \t\n"


def is_plain_key(key: str) -> bool:
    """Return whether `key` is names joined by dots."""
    return _PATH.fullmatch(key) is not None


def parse_plain_value(text: str) -> Any:
    """Return the value of `text`. Raises `ValueError` if it needs Hydra's grammar."""
    if not (text.startswith("[") and text.endswith("]")):
        return _parse_item(text)
    inside = text[1:-1].strip(_BLANK)
    return [_parse_item(item.strip(_BLANK)) for item in inside.split(",")] if inside else []


def _parse_item(text: str) -> Any:
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if _TEXT.fullmatch(text):
        return text
    raise ValueError(f"{text!r} needs a grammar")
