"""The channel to the gym: JSON lines on descriptors that the environment does not know.

Environments print, so descriptor 1 becomes descriptor 2 before any of their code is imported, and descriptor 0 becomes
empty. A thread sends a sign of life every few seconds: it needs no event loop, so it also beats while one is held.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any, BinaryIO

from .faults import HostError

VERSION = 1
MOST_LINE_BYTES = 16 << 20


class HostChannel:
    """Reads requests and writes answers."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._writing = threading.Lock()

    @classmethod
    def take_standard_streams(cls) -> HostChannel:
        """Take descriptors 0 and 1 for the channel, and give the environment others in their place."""
        source, sink = os.fdopen(os.dup(0), "rb"), os.dup(1)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        return cls(source, sink)

    def receive(self) -> dict[str, Any] | None:
        """Wait for a request; None at the end of the gym. Raises `HostError` for a line that is no request."""
        line = self._source.readline()
        if not line.endswith(b"\n"):
            return None
        try:
            request = json.loads(line)
        except ValueError as error:
            raise HostError("bad_request", f"a line is not JSON: {error}") from error
        if not isinstance(request, dict) or request.get("v") != VERSION or "id" not in request:
            raise HostError("bad_request", f"a line is no request of version {VERSION}")
        return request

    def send(self, message: dict[str, Any]) -> None:
        """Write a message. Raises `HostError` if it cannot be one: NaN, or a longer line than the protocol has."""
        try:
            text = json.dumps({"v": VERSION, **message}, ensure_ascii=False, allow_nan=False)
        except ValueError as error:
            raise HostError("environment_error", f"the answer has no JSON: {error}") from error
        data = text.encode("utf-8", "replace") + b"\n"
        if len(data) > MOST_LINE_BYTES:
            size = f"{len(data) >> 20} MiB"
            raise HostError("out_of_resources", f"the answer has {size}, more than {MOST_LINE_BYTES >> 20}")
        with self._writing:
            while data:
                data = data[os.write(self._sink, data) :]

    def beat(self, interval_s: float) -> None:
        """Send a sign of life every few seconds, from a thread of its own, which ends the program with the gym."""

        def beat_on() -> None:
            while True:
                time.sleep(interval_s)
                try:
                    self.send({"type": "event", "event": "alive"})
                except OSError:  # there is no reader
                    os._exit(1)

        threading.Thread(target=beat_on, daemon=True, name="alive").start()
