"""JSON of unknown form: the object in a text, and a member of an object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

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
