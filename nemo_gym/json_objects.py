"""JSON of unknown form: the object in a text, and a member of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


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
