"""What the engine saw, counted; `GET /stats` answers it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class EngineStats:
    """Counts since the start or the last reset."""

    requests: Counter[str] = field(default_factory=Counter)
    """By path, once they are over."""
    statuses: Counter[int] = field(default_factory=Counter)
    """Answers by HTTP status."""
    faults: Counter[str] = field(default_factory=Counter)
    """Faults of the plan that were acted out, by name."""
    in_flight: int = 0
    """Generation requests being worked on now."""
    peak_in_flight: int = 0
    connections: Collection[object] = ()
    """Those that are open."""
    connections_opened: int = 0
    disconnects: int = 0
    """Clients that left before they had their answer."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Tokens of the answers that were sent to their end."""
    cpu_at_reset: float = field(default_factory=time.process_time)

    def count_connection(self) -> None:
        self.connections_opened += 1

    def enter(self) -> None:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def leave(self) -> None:
        self.in_flight -= 1

    def count(self, path: str, status: int | None) -> None:
        """Counts a request that is over; `status` is None when it was never answered."""
        self.requests[path] += 1
        if status is not None:
            self.statuses[status] += 1

    def reset(self) -> None:
        """Starts all counts again; what is in flight or open now stays counted as that."""
        for counter in (self.requests, self.statuses, self.faults):
            counter.clear()
        self.peak_in_flight, self.connections_opened = self.in_flight, 0
        self.disconnects = self.prompt_tokens = self.completion_tokens = 0
        self.cpu_at_reset = time.process_time()

    def to_wire(self) -> dict[str, Any]:
        return {
            "requests": dict(self.requests),
            "requests_total": self.requests.total(),
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "faults": dict(self.faults),
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "connections_opened": self.connections_opened,
            "connections_open": len(self.connections),
            "disconnects": self.disconnects,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "process_cpu_s": time.process_time() - self.cpu_at_reset,
        }
