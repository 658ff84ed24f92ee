"""Pipelined requests: bytes that arrive before the response to an earlier request wait unparsed.

A connection has one request in a handler and at most one that waits, of which only the head is parsed. The bytes after
it are held as they came. Above `HIGH_WATER_LIMIT` of them the connection is not read until the response, and all
connections of a listener hold at most `MAX_HELD_BYTES`.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl

MAX_HELD_BYTES = 32 << 20
"""Bytes of waiting requests on all connections of a listener."""
BLANK_LINE = b"\r\n\r\n"
"""The end of a head. The parser accepts no other."""


class HeldTotal:
    """The bytes that the connections of a listener hold."""

    def __init__(self, most: int = MAX_HELD_BYTES) -> None:
        self.most = most
        self.size = 0


class Unparsed(NamedTuple):
    """The part of `data` from `start` on. It is not cut out: that would copy it for every request in it."""

    data: bytes
    start: int = 0


class HeldFlow(FlowControl):
    """uvicorn's flow control of a connection, which does not read while many bytes wait.

    Few bytes do not stop it, because only a connection that is read tells of its end.
    """

    def __init__(self, transport: asyncio.Transport, total: HeldTotal) -> None:
        super().__init__(transport)
        self._total = total
        self._size = 0
        self._first: Unparsed | None = None
        self._more = bytearray()

    @property
    def is_holding(self) -> bool:
        return self._first is not None

    def hold(self, rest: Unparsed, head_bytes: int) -> bool:
        """Hold `rest` behind a waiting request with a head of `head_bytes`. Returns whether the listener has room."""
        self._first = rest
        return self._count(len(rest.data) - rest.start + head_bytes)

    def add(self, data: bytes) -> bool:
        """Hold `data`, too. Returns whether the listener has room."""
        self._more += data
        return self._count(self._size + len(data))

    def release(self) -> Unparsed:
        """Return the bytes that were held, and read again."""
        held, more = self._first or Unparsed(b""), self._more
        self._first, self._more = None, bytearray()
        self._count(0)
        return Unparsed(held.data[held.start :] + more) if more else held

    def resume_reading(self) -> None:
        if self.read_paused and self._size <= HIGH_WATER_LIMIT:
            super().resume_reading()

    def _count(self, size: int) -> bool:
        self._total.size += size - self._size
        self._size = size
        if size > HIGH_WATER_LIMIT:
            self.pause_reading()
        else:
            self.resume_reading()
        return self._total.size <= self._total.most


def find_piece_end(part: Unparsed, tail: bytes, *, is_answered: bool) -> int:
    """Return the end of a piece from `part.start` on that completes at most one head, and no body of a waiting request.

    `tail`: the last bytes of an incomplete head before `part`; `is_answered`: whether no earlier request is unanswered.
    """
    data, start = part
    if tail and (split := (tail + data[start : start + 3]).find(BLANK_LINE)) >= 0:
        return start + split + len(BLANK_LINE) - len(tail)
    found = data.find(BLANK_LINE, start)
    end = found + len(BLANK_LINE)
    if found < 0 or (is_answered and data.find(BLANK_LINE, end) < 0):
        return len(data)
    return end
