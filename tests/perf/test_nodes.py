"""The benchmark of nodes plays on one machine and on node hosts of this one."""

from __future__ import annotations

from perf.nodes import BenchKeys, run


def test_a_few_attempts_are_made_on_one_machine_and_on_two_nodes() -> None:
    figures = run(1, BenchKeys(nodes=[2], in_flight=32, latency_s=0.05, seconds=0.5))
    assert list(figures) == ["process", "2 nodes"]
    for measured in figures.values():
        assert measured["rollouts_per_s"] > 0
        assert measured["gym_cpu_ms"] > 0
        assert measured["failed"] == 0
    assert figures["2 nodes"]["of_linear"] == 1.0  # with nothing to compare to
