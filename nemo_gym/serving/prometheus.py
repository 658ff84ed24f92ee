"""The figures of a server process in Prometheus's text format, for `GET /metrics`.

The format is a line per figure (https://prometheus.io/docs/instrumenting/exposition_formats), so no library is needed.
Every series has the labels `server` and `process`: a scrape reaches one of a server's processes.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS_S = (0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 300.0, 1_200.0)
"""The upper bounds of the latency histogram in seconds. Rollouts take minutes."""


@dataclass(slots=True)
class LatencyHistogram:
    """Counts of requests by their duration."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """One per bound, and one for longer requests."""
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a request."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds


_COUNTERS = {
    "requests": "Requests, without health and figures.",
    "errors": "Requests answered with a status from 400.",
    "cancelled": "Requests whose client disconnected.",
    "refusals": "Calls that an engine refused for its load.",
}
_GAUGES = {"in_flight": "Requests in progress.", "sessions_open": "Open sessions."}


def exposition(server: str, stats: Mapping[str, Any], latency: LatencyHistogram) -> str:
    """Return the text. `stats` is the answer of `GET /_ng/stats`."""
    labels = f'server="{_escape(server)}",process="{os.getpid()}"'
    return "\n".join([*_figures(stats, labels), *_histogram(latency, labels)]) + "\n"


def _figures(stats: Mapping[str, Any], labels: str) -> Iterator[str]:
    for kind, figures, ending in (("counter", _COUNTERS, "_total"), ("gauge", _GAUGES, "")):
        for name, words in figures.items():
            yield from _head(name + ending, kind, words)
            yield f"nemo_gym_{name}{ending}{{{labels}}} {stats[name]}"
    yield from _head("outages", "gauge", "Endpoints that this process cannot reach.")
    yield f"nemo_gym_outages{{{labels}}} {len(stats['outages'])}"
    yield from _head("loop_held_total", "counter", "Times that a handler blocked the event loop.")
    for handler, held in stats["loop_held"].items():
        yield f'nemo_gym_loop_held_total{{{labels},handler="{_escape(handler)}"}} {held["times"]}'


def _histogram(latency: LatencyHistogram, labels: str) -> Iterator[str]:
    yield from _head("request_seconds", "histogram", "Seconds from a request to its answer.")
    total = 0
    for bound, total in zip((*BOUNDS_S, "+Inf"), accumulate(latency.counts), strict=True):
        yield f'nemo_gym_request_seconds_bucket{{{labels},le="{bound}"}} {total}'
    yield f"nemo_gym_request_seconds_sum{{{labels}}} {latency.sum_s:.6f}"
    yield f"nemo_gym_request_seconds_count{{{labels}}} {total}"


def _head(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP nemo_gym_{name} {words}", f"# TYPE nemo_gym_{name} {kind}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
