"""The standard error of a program that another library starts: copied to ours, and its last line kept."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TextIO

_KEPT_BYTES = 4_000
_MOST_CHARACTERS = 300
_ENDS_WITHIN_S = 1.0


class StandardErrorCopy(asyncio.Protocol):
    """A pipe for the standard error of one program."""

    def __init__(self) -> None:
        self._kept = b""
        self._pipe: asyncio.BaseTransport | None = None
        self._ended = asyncio.Event()

    @classmethod
    async def open(cls) -> tuple[StandardErrorCopy, TextIO]:
        """Return the copy, and the file to start the program with, which the caller closes then."""
        reading, writing = os.pipe()
        _, copy = await asyncio.get_running_loop().connect_read_pipe(
            cls, os.fdopen(reading, "rb", buffering=0)
        )
        return copy, os.fdopen(writing, "w")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = transport

    def data_received(self, data: bytes) -> None:
        sys.stderr.write(data.decode(errors="replace"))
        sys.stderr.flush()
        self._kept = (self._kept + data)[-_KEPT_BYTES:]

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()

    async def read_last_line(self) -> str:
        """Return the last line of a program that has ended; empty if it has printed none."""
        await self._wait_for_end()
        lines = self._kept.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")[:_MOST_CHARACTERS]

    async def close(self) -> None:
        """End the copying once the program has ended."""
        await self._wait_for_end()
        if self._pipe is not None:
            self._pipe.close()

    async def _wait_for_end(self) -> None:
        with suppress(TimeoutError):  # a process that the program has started may go on
            await asyncio.wait_for(self._ended.wait(), _ENDS_WITHIN_S)
