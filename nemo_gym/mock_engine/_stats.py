"""The engine's counters, which `GET /stats` returns."""

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
    """Finished requests by path."""
    statuses: Counter[int] = field(default_factory=Counter)
    """Answers by HTTP status."""
    faults: Counter[str] = field(default_factory=Counter)
    """Applied faults of the plan, by name."""
    in_flight: int = 0
    """Generation requests in progress."""
    peak_in_flight: int = 0
    connections: Collection[object] = ()
    """The open connections."""
    connections_opened: int = 0
    disconnects: int = 0
    """Clients that disconnected before their answer was complete."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Tokens of completely sent answers."""
    cpu_at_reset: float = field(default_factory=time.process_time)

    def count_connection(self) -> None:
        self.connections_opened += 1

    def enter(self) -> None:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def leave(self) -> None:
        self.in_flight -= 1

    def count(self, path: str, status: int | None) -> None:
        """Count a finished request. `status` is None when it was never answered."""
        self.requests[path] += 1
        if status is not None:
            self.statuses[status] += 1

    def reset(self) -> None:
        """Reset all counters except requests in flight and open connections."""
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
