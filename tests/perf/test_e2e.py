"""The benchmark of the whole command collects every rollout, and compares with the rate without the collector."""

from __future__ import annotations

import pytest

from perf.e2e import BenchKeys, run


def test_a_small_collection_has_a_rate_a_cost_and_a_ratio() -> None:
    keys = BenchKeys(rollouts=8, in_flight=4, placements=["process"], seconds=0.5)
    (figures,) = run(1, keys).values()
    assert figures["rollouts_per_s"] == pytest.approx(8 / figures["seconds"])
    assert figures["collecting_rollouts_per_s"] > figures["rollouts_per_s"]
    assert figures["cpu_ms"] == pytest.approx(figures["gym_cpu_ms"] + figures["engine_cpu_ms"])
    assert figures["cpu_ms"] > figures["cpu_ms_without_collector"] > 0, "starting the servers is in it"
    ratio = figures["rollouts_per_s"] / figures["rollouts_per_s_without_collector"]
    assert figures["of_the_rate_without_collector"] == pytest.approx(ratio)
