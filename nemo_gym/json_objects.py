"""JSON of unknown form: the object in a text, a member of an object, numbers, kinds, texts that JSON can hold."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

import orjson

LARGEST_FLOAT = sys.float_info.max


def object_in(text: bytes | str) -> dict[str, Any] | None:
    """Return the JSON object that `text` is; None for other JSON, and for what is not JSON."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


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
