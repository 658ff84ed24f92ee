"""The table of several runs for the page: ids, damaged lines, and files that are not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_gym.failures import InputError
from nemo_gym.viewer.finding import find_runs
from nemo_gym.viewer.run_tables import build_table
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import failure_row, scored_row, store


def test_runs_have_their_ids_and_cells(tmp_path: Path) -> None:
    store_models(tmp_path, {"a": 0.1, "b": 0.9, "c": 0.5}, tasks=5, repeats=2)
    runs = find_runs([tmp_path])
    table = build_table(runs)
    assert [run["id"] for run in table["runs"]] == [run.id for run in runs]
    assert {run["label"] for run in table["runs"]} == {"org/a", "org/b", "org/c"}
    assert (len(table["pairs"]), table["unreadable"]) == (3, 0)


def test_a_run_in_which_every_rollout_failed_has_its_failures(tmp_path: Path) -> None:
    store(tmp_path / "good.jsonl", [scored_row(0), scored_row(1)])
    store(tmp_path / "bad.jsonl", [], [failure_row(0), failure_row(1)])
    (tmp_path / "bad.jsonl").unlink()
    table = build_table(find_runs([tmp_path]))
    cells = {run["label"]: next(iter(run["cells"].values())) for run in table["runs"]}
    assert (cells["bad"]["mean"], cells["bad"]["failed"], cells["good"]["failed"]) == (None, 2, 0)
    assert table["pairs"] == []


def test_damaged_lines_are_left_out_and_named(tmp_path: Path) -> None:
    rows = store(tmp_path / "out.jsonl", [scored_row(0), scored_row(1)])
    rows.write_bytes(rows.read_bytes() + b"{torn\n" + b'{"_ng_task_index": 9}\n')
    table = build_table(find_runs([tmp_path]))
    assert table["unreadable"] >= 1
    assert "out.jsonl:3" in table["problems"][0]


def test_a_file_that_is_not_read_is_refused(tmp_path: Path) -> None:
    store(tmp_path / "out.jsonl", [scored_row(0)])
    (tmp_path / "out_failures.jsonl").unlink()
    os.mkfifo(tmp_path / "out_failures.jsonl")
    with pytest.raises(InputError, match="is a named pipe"):
        build_table(find_runs([tmp_path]))
