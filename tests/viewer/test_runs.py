"""Runs are found below folders, and their state is that of their manifest and lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.metrics import aggregate
from nemo_gym.rollouts.output._append_file import AppendFile
from nemo_gym.rollouts.output.run_state import RunState
from nemo_gym.viewer.finding import find_runs

ROW = b'{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1.0,"response":{}}\n'


def make_run(rows: Path, start: dict[str, Any] | None) -> None:
    rows.parent.mkdir(parents=True, exist_ok=True)
    rows.write_bytes(ROW)
    if start is not None:
        manifest = {"schema_version": 1, "identity": {}, "starts": [start]}
        rows.with_name(f"{rows.stem}_run.json").write_bytes(orjson.dumps(manifest))


@pytest.mark.parametrize(
    ("start", "state"),
    [
        ({"end": "complete"}, RunState.COMPLETE),
        ({"end": "partial"}, RunState.PARTIAL),
        ({"end": "broken"}, RunState.STOPPED),
        ({"started_at": "now"}, RunState.STOPPED),
        (None, RunState.UNKNOWN),
    ],
)
def test_the_manifest_states_how_a_run_ended(
    tmp_path: Path, start: dict[str, Any] | None, state: RunState
) -> None:
    rows = tmp_path / "out.jsonl"
    make_run(rows, start)
    (run,) = find_runs([rows])
    assert run.state() is state


def test_a_run_whose_rows_are_being_written_is_running(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"
    make_run(rows, {"started_at": "now"})
    (run,) = find_runs([rows])
    writing = AppendFile(rows)
    assert run.state() is RunState.RUNNING
    writing.close()
    assert run.state() is RunState.STOPPED


def test_an_unreadable_manifest_is_no_manifest(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"
    make_run(rows, None)
    rows.with_name("out_run.json").write_bytes(b"{torn")
    (run,) = find_runs([rows])
    assert run.details()["manifest"] is None
    assert run.state() is RunState.UNKNOWN


def test_details_have_the_metrics_of_agents_and_the_marks(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"
    make_run(rows, None)
    metrics = [{"agent_metrics": {"mean/reward": 1.0}, "group_level_metrics": [{"task": 0}]}]
    rows.with_name("out_aggregate_metrics.json").write_bytes(orjson.dumps(metrics))
    rows.with_name("out_looks_fine.json").write_bytes(b'["0/0"]')
    (run,) = find_runs([rows])
    details = run.details()
    assert details["metrics"] == [{"agent_metrics": {"mean/reward": 1.0}}]
    assert (details["stem"], details["looks_fine"]) == ("out", ["0/0"])


def test_the_figures_of_a_run_are_those_of_its_metrics(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"
    make_run(rows, None)
    path = rows.with_name("out_aggregate_metrics.json")
    (run,) = find_runs([rows])
    assert (run.summary()["mean"], run.summary()["pass_at"]) == (None, None)
    one = aggregate([{**orjson.loads(ROW), "_ng_task_index": task, "reward": task / 4} for task in range(4)])
    other = {**one["agent_metrics"], "count/scored": 12, "mean/reward": 1.0}
    path.write_bytes(orjson.dumps([{"agent_metrics": one["agent_metrics"]}]))
    found = run.summary()
    assert (found["mean"], found["pass_at"]) == (0.375, [1, 0.375])
    assert 0.0 <= found["interval"][0] < 0.375 < found["interval"][1] <= 1.0
    path.write_bytes(orjson.dumps([{"agent_metrics": one["agent_metrics"]}, {"agent_metrics": other}]))
    assert (run.summary()["mean"], run.summary()["interval"]) == ((0.375 + 1.0) / 2, None)


def test_the_best_of_several_agents_is_the_mean_of_theirs_at_the_largest_common_k(tmp_path: Path) -> None:
    def make_metrics(rewards: list[list[float]]) -> dict[str, Any]:
        rows = [
            {**orjson.loads(ROW), "_ng_task_index": task, "_ng_rollout_index": k, "reward": reward}
            for task, own in enumerate(rewards)
            for k, reward in enumerate(own)
        ]
        return {"agent_metrics": aggregate(rows)["agent_metrics"]}

    rows = tmp_path / "out.jsonl"
    make_run(rows, None)
    path = rows.with_name("out_aggregate_metrics.json")
    (run,) = find_runs([rows])
    solved, partial = make_metrics([[0, 1, 0, 1], [0, 0, 0, 0]]), make_metrics([[0.5, 0.25], [0.0, 0.0]])
    path.write_bytes(orjson.dumps([solved, make_metrics([[1, 1], [0, 1]])]))
    expected = ((5 / 6 + 0) / 2 + 1.0) / 2
    assert run.summary()["pass_at"] == [2, pytest.approx(expected)]
    assert run.summary()["is_best"] is False
    assert run.summary()["short_tasks"] == 0
    path.write_bytes(orjson.dumps([make_metrics([[1, 1], [0]])]))
    assert (run.summary()["pass_at"], run.summary()["short_tasks"]) == ([2, 1.0], 1)
    path.write_bytes(orjson.dumps([solved, partial]))
    assert run.summary()["pass_at"] == [2, pytest.approx((5 / 12 + 0.25) / 2)]
    assert run.summary()["is_best"] is True


def test_the_estimate_of_a_run_with_an_aim_is_shown_while_it_goes_on(tmp_path: Path) -> None:
    make_run(tmp_path / "out.jsonl", {"started_at": "now"})
    (run,) = find_runs([tmp_path])
    assert "aim" not in run.summary()
    estimate = {"mean": 0.7, "low": 0.6, "high": 0.8, "aim": "±0.05", "text": ["It is 0.7.", 5]}
    (tmp_path / "out_estimate.json").write_bytes(orjson.dumps(estimate))
    shown = run.summary()
    assert (shown["mean"], shown["interval"], shown["aim"]) == (0.7, [0.6, 0.8], "±0.05")
    assert shown["estimate"] == ["It is 0.7."]
    (tmp_path / "out_estimate.json").write_bytes(b'{"mean": "much"}')
    (problem,) = run.summary()["problems"]
    assert problem == "out_estimate.json is damaged: mean, low and high must be numbers"
