"""Objects over a socket between a collector and the processes that it has started. Both ends are ours: pickle does."""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections.abc import Callable
from typing import Any, Final, cast

_LENGTH: Final = struct.Struct("!I")


class Channel(asyncio.Protocol):
    """One end."""

    def __init__(self, on_message: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        """`on_end` is called when the other end is gone, or this one is closed."""
        self._on_message = on_message
        self._on_end = on_end
        self._received = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def send(self, message: object) -> None:
        """Send a message; dropped when the other end is gone."""
        assert self._transport is not None
        if not self._transport.is_closing():
            content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
            self._transport.write(_LENGTH.pack(len(content)) + content)

    def close(self) -> None:
        """Close when everything is sent."""
        if self._transport is not None:
            self._transport.close()

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        start, head = 0, _LENGTH.size
        while len(self._received) - start >= head:
            end = start + head + _LENGTH.unpack_from(self._received, start)[0]
            if end > len(self._received):
                break
            self._on_message(pickle.loads(self._received[start + head : end]))
            start = end
        del self._received[:start]

    def connection_lost(self, error: Exception | None) -> None:
        self._on_end()
