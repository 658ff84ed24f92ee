"""Server-sent events as bytes."""

from __future__ import annotations

from typing import Any

import orjson

DONE = b"data: [DONE]\n\n"
"""The last line of a chat stream."""


def sse_data(data: dict[str, Any]) -> bytes:
    """Return an event without a name."""
    return b"data: %b\n\n" % orjson.dumps(data)


def sse_event(data: dict[str, Any]) -> bytes:
    """Return an event named by the data's `type`."""
    return b"event: %b\n%b" % (data["type"].encode(), sse_data(data))
