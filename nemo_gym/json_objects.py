"""The JSON object in a text that may hold anything else."""

from __future__ import annotations

from typing import Any

import orjson


def object_in(text: bytes | str) -> dict[str, Any] | None:
    """Return the JSON object that `text` is; None for other JSON, and for what is not JSON."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
