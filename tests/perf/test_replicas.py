"""The replicas' benchmark plays sessions whose state is in the memory of one of several processes."""

from __future__ import annotations

from perf.replicas import BenchKeys, run


def test_a_few_sessions_are_all_served_by_their_own_replica() -> None:
    figures = run(1, BenchKeys(replicas=[1, 2], sessions=20))
    assert figures["1 replica"]["of_one_replica"] == 1.0
    for number in ("1 replica", "2 replicas"):
        assert figures[number]["sessions"] == 20
        assert figures[number]["saw_another_replica"] == 0
        assert figures[number]["sessions_per_s"] > 1
    assert figures["2 replicas"]["of_one_replica"] > 0
