"""The summary of a run."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.metrics import Planned
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.run.answer import classify
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.run_metrics import RunMetrics
from nemo_gym.rollouts.run.stopping import StopReason
from nemo_gym.rollouts.run.summary import CollectSummary, print_summary, summarize_agents
from tests.rollouts.doubles import failure, planned, scored


def summary_of(folder: Path, counters: RunCounters, **options: Any) -> CollectSummary:
    """A run of two tasks with four repeats, one of which failed and one of which is missing."""
    metrics = RunMetrics()
    for place, reward in enumerate([1.0, 1.0, 0.0, 1.0, 0.0, 0.0]):
        attempt = planned(place // 4, place % 4)
        metrics.note(attempt, classify(attempt, scored(attempt, reward)))
    attempt = planned(1, 2)
    metrics.note(attempt, classify(attempt, failure()))
    plan = {"simple_agent": Planned(2, 8)}
    agents = summarize_agents(metrics.results(plan), plan)
    return CollectSummary(RunFiles.of(folder / "out.jsonl"), agents, counters, seconds=3.0, **options)


def counters_of(**counts: Any) -> RunCounters:
    counters = RunCounters(8, **counts)
    counters.failures.update({"engine:engine_down": counters.failed} if counters.failed else {})
    return counters


@pytest.mark.parametrize(
    ("counters", "stop", "exit_code", "end"),
    [
        (counters_of(completed=7, truncated=1), None, 0, "complete"),
        (counters_of(finished_before=8), None, 0, "complete"),
        (counters_of(finished_before=2, completed=5, failed=1), None, 3, "partial"),
        (counters_of(completed=7, discarded=1), None, 3, "partial"),
        (counters_of(completed=7, cancelled=1), StopReason("interrupted", "x"), 3, "interrupted"),
        (counters_of(completed=8), StopReason("interrupted", "x"), 0, "interrupted"),
        (counters_of(failed=8), StopReason("systemic_failure", "x"), 1, "systemic_failure"),
    ],
)
def test_complete_partial_and_stopped_runs_have_different_exit_codes(
    tmp_path: Path, counters: RunCounters, stop: StopReason | None, exit_code: int, end: str
) -> None:
    summary = summary_of(tmp_path, counters, stop=stop)
    assert (summary.exit_code, summary.end) == (exit_code, end)


def test_the_table_has_a_line_for_each_agent_and_says_what_to_do_next(tmp_path: Path) -> None:
    stop = StopReason("systemic_failure", "the engine is gone", "Start it.")
    summary = summary_of(
        tmp_path, counters_of(completed=6, failed=1), stop=stop, invalid_rows=2, notes=["a remark"]
    )
    (tmp_path / "out.jsonl").write_text("{}\n")
    stream = io.StringIO()
    print_summary(summary, stream)
    text = stream.getvalue()
    figures = {
        line.split("  ")[0].strip(): line.split("  ")[-1].strip() for line in text.splitlines() if line
    }
    assert "simple_agent" in text.splitlines()[1]
    assert [
        figures[name] for name in ("tasks", "rollouts", "completed", "truncated", "failed", "missing")
    ] == [
        "2",
        "8",
        "6",
        "0",
        "1",
        "1",
    ]
    assert (figures["mean reward"], figures["coverage"]) == ("0.5000", "75.0 %")
    assert figures["pass@1"].endswith("%")
    assert "pass@4" in figures
    left_out = [line.split()[-3:] for line in text.splitlines() if "tasks left out" in line]
    assert left_out == [["1", "of", "2"]]
    for part in (
        "6 rows in 0:03, 2.3/s",
        "1 rollouts failed: engine:engine_down 1",
        "2 malformed rows were skipped",
        "note: a remark",
        str(tmp_path / "out.jsonl"),
        "stopped: the engine is gone",
        "-> Start it.",
        "+resume_from_cache=true",
    ):
        assert part in text


def test_many_agents_are_listed_in_groups(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, counters_of())
    many = replace(summary, agents=[replace(summary.agents[0], agent=f"agent_{place}") for place in range(7)])
    stream = io.StringIO()
    print_summary(many, stream)
    text = stream.getvalue()
    assert all(f"agent_{place}" in text for place in range(7))
    assert text.count("mean reward") == 3
    assert "…" not in text


def test_the_summary_for_machines_is_json(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("{}\n")
    (tmp_path / "out_run.json").write_text("{}\n")
    data = summary_of(tmp_path, counters_of(completed=6, failed=1)).to_json()
    assert orjson.loads(orjson.dumps(data))["agents"][0]["pass_at"]["1"] > 0
    assert data["agents"][0]["short_tasks"] == {"3": 1, "4": 1}
    assert data["counts"] == {
        "planned": 8,
        "finished_before": 0,
        "completed": 6,
        "truncated": 0,
        "failed": 1,
        "cancelled": 0,
        "discarded": 0,
        "retries": 0,
        "invalid_rows": 0,
    }
    assert data["failures"] == {"engine:engine_down": 1}
    assert data["files"] == {"rows": str(tmp_path / "out.jsonl"), "run": str(tmp_path / "out_run.json")}


def test_a_run_that_must_be_complete_fails_if_a_row_is_missing(tmp_path: Path) -> None:
    assert summary_of(tmp_path, counters_of(completed=7)).exit_code == 3
    assert summary_of(tmp_path, counters_of(completed=7), must_be_complete=True).exit_code == 1
    assert summary_of(tmp_path, counters_of(completed=8), must_be_complete=True).exit_code == 0
