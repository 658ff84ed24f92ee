"""The collector's benchmark: a real collection in a process of its own, from a stub that costs next to nothing."""

from __future__ import annotations

import orjson

from perf.collector import FOUR, ONE, OVER_HTTP, RESUME, ROW_BYTES, BenchKeys, run, scored


def test_the_stub_answers_a_task_row_with_a_scored_row_of_four_kilobytes() -> None:
    task = orjson.dumps({"_ng_task_index": 0, "responses_create_params": {"input": "x" * 300}})
    row = orjson.loads(scored(task))
    assert row["_ng_task_index"] == 0
    assert row["reward"] == 1.0
    assert abs(len(scored(task)) - ROW_BYTES) < 200


def test_a_small_run_has_all_figures() -> None:
    figures = run(1, BenchKeys(rows=1_000))
    for way in (FOUR, ONE, OVER_HTTP):
        assert figures[way]["rows_per_s"] > 100
        assert figures[way]["rows_per_cpu_s"] > 100
        assert 20 < figures[way]["peak_memory_mb"] < 200
        assert 0 <= figures[way]["memory_growth_mb"] < figures[way]["peak_memory_mb"]
        assert figures[way]["cpu_ms_a_row"] > 0
    assert figures[OVER_HTTP]["stub_cpu_ms_a_row"] > 0
    assert 0 < figures[RESUME]["until_first_rollout_s"] < figures[RESUME]["seconds"]
