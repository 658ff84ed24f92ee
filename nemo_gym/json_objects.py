"""JSON of unknown form: the object in a text, a member of an object, numbers, kinds, texts that JSON can hold."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, Final

import orjson

LARGEST_FLOAT = sys.float_info.max
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\(u[dD][89a-fA-F][\da-fA-F]{2})|\\.",
    re.DOTALL,
)
"""An escape in a JSON text. The group is one half of a character, without the other."""
_REPLACEMENT: Final = rb"\ufffd"


def object_in(text: bytes | str) -> dict[str, Any] | None:
    """Return the JSON object that `text` is; None for other JSON, and for what is not JSON."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def parse_object(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object that any program wrote: as `object_in`, and also with halves of characters.

    Python's `json` writes a half as an escape such as `\\ud800`, and orjson reads none. A half is read as U+FFFD.
    """
    found = object_in(text)
    if found is None and (whole := _ESCAPE.sub(_replace_half, text)) != text:
        return object_in(whole)
    return found


def _replace_half(escape: re.Match[bytes]) -> bytes:
    return _REPLACEMENT if escape[1] else escape[0]


def member(value: object, *names: str) -> Any:
    """Return the member of objects in objects; None if one of them lacks it or is no object."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def finite_number(value: object) -> float | None:
    """Return the value as a float, booleans as 0 and 1; None for NaN, infinities and other types."""
    if not isinstance(value, int | float):  # and booleans, which are integers
        return None
    return float(value) if -LARGEST_FLOAT <= value <= LARGEST_FLOAT else None


def describe_kind(value: object) -> str:
    """Return the JSON type of a value, with its article."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")


_SURROGATES = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for each surrogate: a Python text may have them, UTF-8 and most parsers do not."""
    return _SURROGATES.sub("\ufffd", text)
