"""`GET /metrics` of a server, read by Prometheus's own parser."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym import PARENT_DIR
from nemo_gym.serving.prometheus import BOUNDS_S, CONTENT_TYPE, LatencyHistogram, exposition
from tests.serving.environments import CounterEnvironment

STATS: dict[str, Any] = {
    "requests": 7,
    "errors": 2,
    "cancelled": 1,
    "refusals": 0,
    "in_flight": 3,
    "sessions_open": 4,
    "outages": [{"url": "http://a"}],
    "loop_held": {'tool "x"\n': {"times": 5, "longest_s": 0.4}},
}


def parsed(text: str) -> dict[str, Any]:
    parser = pytest.importorskip("prometheus_client.parser")
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def test_figures_have_their_kinds_and_labels() -> None:
    families = parsed(exposition('my "server"', STATS, LatencyHistogram()))
    assert {name: family.type for name, family in families.items()} == {
        **dict.fromkeys(
            [f"nemo_gym_{name}" for name in ("requests", "errors", "cancelled", "refusals", "loop_held")],
            "counter",
        ),
        **dict.fromkeys([f"nemo_gym_{name}" for name in ("in_flight", "sessions_open", "outages")], "gauge"),
        "nemo_gym_request_seconds": "histogram",
    }
    (requests,) = families["nemo_gym_requests"].samples
    assert (requests.value, requests.labels) == (7, {"server": 'my "server"', "process": str(os.getpid())})
    (held,) = families["nemo_gym_loop_held"].samples
    assert (held.value, held.labels["handler"]) == (5, 'tool "x"\n')


def test_a_histogram_is_cumulative() -> None:
    latency = LatencyHistogram()
    for seconds in (0.001, 0.005, 0.3, 5_000.0):
        latency.add(seconds)
    samples = parsed(exposition("s", STATS, latency))["nemo_gym_request_seconds"].samples
    buckets = {sample.labels["le"]: sample.value for sample in samples if "le" in sample.labels}
    assert list(buckets) == [*map(str, BOUNDS_S), "+Inf"]
    assert (buckets["0.005"], buckets["0.1"], buckets["0.5"], buckets["1200.0"], buckets["+Inf"]) == (
        2,
        2,
        3,
        3,
        4,
    )
    totals = {sample.name.rsplit("_", 1)[1]: sample.value for sample in samples if "le" not in sample.labels}
    assert totals == {"count": 4, "sum": pytest.approx(5000.306)}


def test_every_server_answers_and_scrapes_are_not_counted() -> None:
    client = TestClient(CounterEnvironment.standalone(name="env").setup_webserver())
    client.get("/nowhere")
    client.get("/metrics")
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == CONTENT_TYPE
    families = parsed(answer.text)
    for name in ("requests", "errors"):
        assert families[f"nemo_gym_{name}"].samples[0].value == 1
    assert families["nemo_gym_request_seconds"].samples[-1].labels["server"] == "env"


def test_the_dashboard_shows_figures_that_servers_have() -> None:
    families = parsed(exposition("s", STATS, LatencyHistogram()))
    samples = {sample.name for family in families.values() for sample in family.samples}
    board = json.loads((PARENT_DIR / "docs" / "grafana.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    shown = {name for query in queries for name in re.findall(r"nemo_gym_\w+", query)}
    assert len(queries) >= 9
    assert shown <= samples
